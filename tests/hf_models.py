"""Tiny models of transformers' classes, from settings and a seed, in folders as Hugging Face saves models.

scripts/record_hf.py builds them in transformers and records, for each kind, the settings as they are saved, the names
and shapes of the tensors, and what the model computes. Tests write the same folder from the record alone.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

VOCAB, LENGTHS = 64, (48, 200)
DATA = Path(__file__).parent / "data" / "hf"
PEFT = DATA.parent / "peft.npz"
FURTHER_DATA = DATA.parent / "hf_further.npz"
GRADIENTS = DATA.parent / "hf_gradients.npz"
LLAMA_CPP = DATA.parent / "llama_cpp.json"  # the error of llama.cpp's logits by kind, see scripts/compare_llama_cpp.py

SIZES = {
    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 24, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
LAYERS = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
WINDOWS = {"num_hidden_layers": 4, "layer_types": LAYERS, "sliding_window": 20}

GPT_OSS = {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 20, "num_hidden_layers": 4,
           "rope_parameters": YARN}  # fmt: skip
GEMMA4 = {"head_dim": 16, "global_head_dim": 32, "final_logit_softcapping": 3.0, "rope_parameters": {
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}}  # fmt: skip
LATENT = {"head_dim": None, "num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 20, "qk_nope_head_dim": 12,
          "qk_rope_head_dim": 8, "v_head_dim": 10}  # fmt: skip
DEEPSEEK = {**LATENT, "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
            "n_shared_experts": 2, "first_k_dense_replace": 1}  # fmt: skip
MROPE = {"rope_type": "default", "rope_theta": 1e5}
VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 4,
          "out_hidden_size": 64, "deepstack_visual_indexes": [0], "num_position_embeddings": 16}  # fmt: skip
T5 = {name: None for name in SIZES if name not in ("vocab_size", "pad_token_id")} | {
    "d_model": 64, "d_kv": 20, "d_ff": 80, "num_layers": 3, "num_heads": 4, "relative_attention_num_buckets": 16,
    "eos_token_id": 1, "decoder_start_token_id": 0}  # fmt: skip
FALCON = {"head_dim": None, "num_key_value_heads": None, "intermediate_size": None, "ffn_hidden_size": 96}

DELTA_NET = {
    "num_hidden_layers": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2,
    "linear_num_value_heads": 6, "layer_types": ["linear_attention", "full_attention"] * 2, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [2, 2, 2]},
}  # fmt: skip
DELTA_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                 "shared_expert_intermediate_size": 48}  # fmt: skip

NO_ATTENTION = dict.fromkeys(("head_dim", "num_attention_heads", "num_key_value_heads", "intermediate_size",
                              "max_position_embeddings"))  # fmt: skip

GRANITE_4 = {
    "head_dim": None, "attention_multiplier": 0.3, "embedding_multiplier": 2.0, "residual_multiplier": 0.5,
    "logits_scaling": 3.0, "shared_intermediate_size": 48, "mamba_n_heads": 8, "mamba_n_groups": 2,
    "mamba_d_state": 16, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}  # fmt: skip
FALCON_H1 = {"mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_n_groups": 2, "mamba_d_state": 16}

# Kind: (class of the settings, class of the model, settings beside SIZES; None leaves one out)
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "llama+llama3": ("LlamaConfig", "LlamaForCausalLM", {"rope_parameters": LLAMA3, "num_key_value_heads": 1,
                                                         "attention_bias": True, "mlp_bias": True}),
    "llama+yarn": ("LlamaConfig", "LlamaForCausalLM", {"rope_parameters": YARN, "tie_word_embeddings": True}),
    "llama+linear": ("LlamaConfig", "LlamaForCausalLM", {
        "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}, "num_key_value_heads": 4,
        "head_dim": None}),
    "mistral": ("MistralConfig", "MistralForCausalLM", {"sliding_window": None, "rope_theta": 1e6}),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", {"num_local_experts": 4, "num_experts_per_tok": 2,
                                                        "sliding_window": None}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {"head_dim": None}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {"tie_word_embeddings": True}),
    "qwen3+llama3": ("Qwen3Config", "Qwen3ForCausalLM", {"rope_parameters": LLAMA3}),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {**WINDOWS, "query_pre_attn_scalar": 24,
                                                     "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {
        **WINDOWS, "query_pre_attn_scalar": 24, "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}}),
    "gemma3+llama3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {
        **WINDOWS, "query_pre_attn_scalar": 24, "rope_parameters": {
            "full_attention": LLAMA3, "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}}),
    "gemma3n": ("Gemma3nTextConfig", "Gemma3nForCausalLM", {
        **WINDOWS, "num_hidden_layers": 6, "layer_types": [*LAYERS[:3], *LAYERS[1:3], LAYERS[2]],
        "num_kv_shared_layers": 3, "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": VOCAB,
        "laurel_rank": 8, "altup_num_inputs": 3, "activation_sparsity_pattern": [0.9, 0.7, 0.0, 0.0, 0.5, 0.0],
        "final_logit_softcapping": 3.0, "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}}),
    "gemma4": ("Gemma4TextConfig", "Gemma4ForCausalLM", {
        **WINDOWS, **GEMMA4, "num_hidden_layers": 6, "layer_types": [*LAYERS[:3], *LAYERS[1:3], LAYERS[2]],
        "num_kv_shared_layers": 3, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 12,
        "vocab_size_per_layer_input": VOCAB}),
    "gemma4+experts": ("Gemma4TextConfig", "Gemma4ForCausalLM", {
        **WINDOWS, **GEMMA4, "layer_types": [*LAYERS[:3], LAYERS[2]], "hidden_size_per_layer_input": 0,
        "attention_k_eq_v": True, "num_global_key_value_heads": 1, "enable_moe_block": True, "num_experts": 4,
        "top_k_experts": 2, "moe_intermediate_size": 32}),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", {}),
    "qwen2vl": ("Qwen2VLConfig", "Qwen2VLForConditionalGeneration", {
        "vision_config": {"depth": 1, "embed_dim": 16, "hidden_size": 64, "num_heads": 2, "patch_size": 4},
        "text_config": {"head_dim": None, "rope_parameters": {**MROPE, "mrope_section": [2, 3, 3]}}}),
    "qwen3vl": ("Qwen3VLConfig", "Qwen3VLForConditionalGeneration", {
        "vision_config": VISION, "tie_word_embeddings": True, "text_config": {
            "tie_word_embeddings": True, "rope_parameters": {**MROPE, "mrope_section": [4, 4, 4]}}}),
    "qwen3vlmoe": ("Qwen3VLMoeConfig", "Qwen3VLMoeForConditionalGeneration", {
        "vision_config": VISION, "text_config": {
            "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
            "rope_parameters": {**MROPE, "mrope_section": [4, 4, 4]}}}),
    "qwen2moe": ("Qwen2MoeConfig", "Qwen2MoeForCausalLM", {
        "head_dim": None, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 48}),
    "qwen3moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}),
    "deepseek2": ("DeepseekV2Config", "DeepseekV2ForCausalLM", {
        **DEEPSEEK, "n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy",
        "routed_scaling_factor": 2.0, "rope_parameters": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}}),
    "deepseek2+lite": ("DeepseekV2Config", "DeepseekV2ForCausalLM", {**DEEPSEEK, "q_lora_rank": None}),
    "deepseek2+longrope": ("DeepseekV2Config", "DeepseekV2ForCausalLM", {**DEEPSEEK, "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 64, "attention_factor": 1.2,
        "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 3.0, 5.0]}}),
    "deepseek3": ("DeepseekV3Config", "DeepseekV3ForCausalLM", {
        **DEEPSEEK, "n_group": 4, "topk_group": 2, "n_shared_experts": 1,
        "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}),
    "minicpm3": ("MiniCPM3Config", "MiniCPM3ForCausalLM", {
        **LATENT, "v_head_dim": None}),
    "ernie4_5-moe": ("Ernie4_5_MoeConfig", "Ernie4_5_MoeForCausalLM", {
        "head_dim": None, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32, "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1}),
    "glm4moe": ("Glm4MoeConfig", "Glm4MoeForCausalLM", {
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
        "n_shared_experts": 1, "use_qk_norm": True, "routed_scaling_factor": 1.5, "attention_bias": True}),
    "ernie4_5": ("Ernie4_5Config", "Ernie4_5ForCausalLM", {}),
    "gpt-oss": ("GptOssConfig", "GptOssForCausalLM", GPT_OSS),
    "gpt-oss+limit": ("GptOssConfig", "GptOssForCausalLM", {
        **GPT_OSS, "swiglu_limit": 0.8, "swiglu_alpha": 1.5, "rope_parameters": {**YARN, "truncate": False}}),
    "bitnet+silu": ("BitNetConfig", "BitNetForCausalLM", {
        "head_dim": None, "tie_word_embeddings": True, "hidden_act": "silu"}),
    "bitnet": ("BitNetConfig", "BitNetForCausalLM", {"head_dim": None, "tie_word_embeddings": True}),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", {"num_hidden_layers": 5, "head_dim": None}),
    "mistral3": ("Ministral3Config", "Ministral3ForCausalLM", {"rope_parameters": {
        **YARN, "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0}}),
    "llama4": ("Llama4TextConfig", "Llama4ForCausalLM", {
        "intermediate_size": 48, "intermediate_size_mlp": 80, "num_hidden_layers": 5, "num_local_experts": 4,
        "interleave_moe_layer_step": 2}),
    "llama4+growth": ("Llama4TextConfig", "Llama4ForCausalLM", {
        "intermediate_size": 48, "num_hidden_layers": 5, "num_local_experts": 4, "interleave_moe_layer_step": 1,
        "num_experts_per_tok": 2, "attention_chunk_size": 256, "floor_scale": 16}),
    "llama4+chunks": ("Llama4TextConfig", "Llama4ForCausalLM", {
        "intermediate_size": 48, "intermediate_size_mlp": 80, "num_hidden_layers": 5, "num_local_experts": 4,
        "interleave_moe_layer_step": 2, "attention_chunk_size": 24}),
    "hunyuan": ("HunYuanDenseV1Config", "HunYuanDenseV1ForCausalLM", {
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 50.0, "factor": 1.0}}),
    "granite": ("GraniteConfig", "GraniteForCausalLM", {
        "head_dim": None, "attention_multiplier": 0.3, "embedding_multiplier": 2.0, "residual_multiplier": 0.5,
        "logits_scaling": 3.0}),
    "granitemoe": ("GraniteMoeConfig", "GraniteMoeForCausalLM", {
        "head_dim": None, "attention_multiplier": 0.3, "embedding_multiplier": 2.0, "residual_multiplier": 0.5,
        "logits_scaling": 3.0, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "granitemoe+shared": ("GraniteMoeSharedConfig", "GraniteMoeSharedForCausalLM", {
        "head_dim": None, "attention_multiplier": 0.3, "residual_multiplier": 0.5, "num_local_experts": 4,
        "num_experts_per_tok": 2, "shared_intermediate_size": 32}),
    "minicpm": ("GraniteConfig", "GraniteForCausalLM", {
        "head_dim": None, "attention_multiplier": 0.25, "embedding_multiplier": 12.0,
        "residual_multiplier": 1.4 / 3**0.5, "logits_scaling": 2.0}),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", {"head_dim": None, "sliding_window": 30}),
    "phi3+longrope": ("Phi3Config", "Phi3ForCausalLM", {
        "head_dim": None, "partial_rotary_factor": 0.75, "original_max_position_embeddings": 64, "rope_parameters": {
            "rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
            "original_max_position_embeddings": 64, "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
            "long_factor": [1.0, 2.0, 3.0, 5.0, 8.0, 13.0]}}),
    "phimoe": ("PhimoeConfig", "PhimoeForCausalLM", {
        "head_dim": None, "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True,
        "lm_head_bias": True}),
    "glm4": ("Glm4Config", "Glm4ForCausalLM", {}),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", {"head_dim": None}),
    "olmo3": ("Olmo3Config", "Olmo3ForCausalLM", {**WINDOWS, "head_dim": None, "rope_parameters": {
        "full_attention": {**YARN, "truncate": False},  # which transformers ignores there
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}),
    "exaone4": ("Exaone4Config", "Exaone4ForCausalLM", {"head_dim": None, "sliding_window": None}),
    "exaone4+window": ("Exaone4Config", "Exaone4ForCausalLM", {
        **WINDOWS, "head_dim": None, "sliding_window_pattern": 4}),
    "qwen3next": ("Qwen3NextConfig", "Qwen3NextForCausalLM", {**DELTA_NET, **DELTA_EXPERTS}),
    "qwen35": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM", {**DELTA_NET, "tie_word_embeddings": True}),
    "qwen35+equal": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM", {
        **DELTA_NET, "linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_conv_kernel_dim": 2}),
    "qwen35moe": ("Qwen3_5MoeTextConfig", "Qwen3_5MoeForCausalLM", {
        **DELTA_NET, **DELTA_EXPERTS, "linear_num_key_heads": 1, "linear_num_value_heads": 2}),
    "mamba": ("MambaConfig", "MambaForCausalLM", {**NO_ATTENTION, "state_size": 8, "time_step_rank": 5}),
    "falcon-mamba": ("FalconMambaConfig", "FalconMambaForCausalLM", {
        **NO_ATTENTION, "state_size": 16, "mixer_rms_eps": 1e-5, "tie_word_embeddings": False}),
    "mamba2": ("Mamba2Config", "Mamba2ForCausalLM", {
        **NO_ATTENTION, "state_size": 24, "num_heads": 8, "head_dim": 16, "n_groups": 2}),
    "mamba2+one": ("Mamba2Config", "Mamba2ForCausalLM", {
        **NO_ATTENTION, "state_size": 16, "num_heads": 4, "head_dim": 32, "n_groups": 1, "conv_kernel": 3,
        "tie_word_embeddings": True}),
    "granitehybrid": ("GraniteMoeHybridConfig", "GraniteMoeHybridForCausalLM", {
        **GRANITE_4, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "granitehybrid+dense": ("GraniteMoeHybridConfig", "GraniteMoeHybridForCausalLM", {
        **GRANITE_4, "num_local_experts": 0, "position_embedding_type": "rope", "mamba_n_groups": 1}),
    "falcon-h1": ("FalconH1Config", "FalconH1ForCausalLM", {
        **FALCON_H1, "mamba_rms_norm": True, "mamba_norm_before_gate": False, "mlp_multipliers": [0.5, 1.5],
        "ssm_multipliers": [0.5, 1.25, 0.75, 1.5, 2.0], "ssm_in_multiplier": 1.25, "ssm_out_multiplier": 0.75,
        "key_multiplier": 0.5, "attention_in_multiplier": 1.5, "attention_out_multiplier": 0.75,
        "lm_head_multiplier": 0.5, "embedding_multiplier": 2.0}),
    "falcon-h1+plain": ("FalconH1Config", "FalconH1ForCausalLM", {**FALCON_H1, "tie_word_embeddings": True}),
    "nemotron_h": ("NemotronHConfig", "NemotronHForCausalLM", {
        "num_hidden_layers": 5, "mamba_num_heads": 8, "mamba_head_dim": 12, "n_groups": 2, "ssm_state_size": 16,
        "layers_block_type": ["linear_attention", "mlp", "full_attention", "mlp", "linear_attention"]}),
    "nemotron_h_moe": ("NemotronHConfig", "NemotronHForCausalLM", {
        "num_hidden_layers": 4, "mamba_num_heads": 6, "mamba_head_dim": 16, "n_groups": 3, "ssm_state_size": 16,
        "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"], "n_routed_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48,
        "routed_scaling_factor": 2.5}),
    "nemotron_h_moe+groups": ("NemotronHConfig", "NemotronHForCausalLM", {
        "num_hidden_layers": 4, "mamba_num_heads": 6, "mamba_head_dim": 16, "n_groups": 3, "ssm_state_size": 16,
        "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"], "n_routed_experts": 12,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48,
        "n_group": 3, "topk_group": 2, "norm_topk_prob": False}),
    "lfm2": ("Lfm2Config", "Lfm2ForCausalLM", {
        "head_dim": None, "layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False}),
    "lfm2+wide": ("Lfm2Config", "Lfm2ForCausalLM", {
        "head_dim": None, "layer_types": ["full_attention", "conv", "conv"], "conv_L_cache": 4,
        "block_multiple_of": 32, "tie_word_embeddings": False}),
    "lfm2moe": ("Lfm2MoeConfig", "Lfm2MoeForCausalLM", {
        "head_dim": None, "layer_types": ["conv", "full_attention", "conv"], "num_dense_layers": 1, "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32}),
    "phi2": ("PhiConfig", "PhiForCausalLM", {"head_dim": None}),
    "gptneox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {"head_dim": None, "num_key_value_heads": None,
                                                        "rotary_pct": 0.5}),
    "gptneox+serial": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {
        "head_dim": None, "num_key_value_heads": None, "use_parallel_residual": False}),
    "stablelm": ("StableLmConfig", "StableLmForCausalLM", {"head_dim": None, "use_qkv_bias": True}),
    "stablelm+parallel": ("StableLmConfig", "StableLmForCausalLM", {"head_dim": None, "use_parallel_residual": True}),
    "starcoder2": ("Starcoder2Config", "Starcoder2ForCausalLM", {"head_dim": None, "sliding_window": None}),
    "nemotron": ("NemotronConfig", "NemotronForCausalLM", {"head_dim": None}),
    "falcon": ("FalconConfig", "FalconForCausalLM", {**FALCON, "multi_query": True}),
    "falcon+new": ("FalconConfig", "FalconForCausalLM", {
        **FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "command-r": ("CohereConfig", "CohereForCausalLM", {"head_dim": None, "logit_scale": 0.25}),
    "cohere2": ("Cohere2Config", "Cohere2ForCausalLM", {**WINDOWS, "head_dim": None, "logit_scale": 0.25}),
    "gemma-embedding": ("Gemma3TextConfig", "Gemma3TextModel", {
        **WINDOWS, "query_pre_attn_scalar": 24, "use_bidirectional_attention": True, "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}}),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {"n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 256}),
    "bert": ("BertConfig", "BertModel", {"head_dim": None, "num_key_value_heads": None}),
    "bert+tanh": ("BertConfig", "BertModel", {
        "head_dim": None, "num_key_value_heads": None, "hidden_act": "gelu_pytorch_tanh"}),
    "roberta": ("XLMRobertaConfig", "XLMRobertaModel", {"head_dim": None, "num_key_value_heads": None,
                                                       "pad_token_id": 1, "bos_token_id": 0}),
    "nomic-bert": ("NomicBertConfig", "NomicBertModel", {"head_dim": None, "num_key_value_heads": None}),
    "modern-bert": ("ModernBertConfig", "ModernBertModel", {
        "head_dim": None, "num_key_value_heads": None, "num_hidden_layers": 5, "local_attention": 21, "norm_bias": True,
        "attention_bias": True, "mlp_bias": True}),
    "modern-bert+yarn": ("ModernBertConfig", "ModernBertModel", {
        "head_dim": None, "num_key_value_heads": None, "num_hidden_layers": 4, "local_attention": 20,
        "rope_parameters": {"full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}}),
    "jina-bert-v3": ("JinaEmbeddingsV3Config", "JinaEmbeddingsV3Model", {
        "head_dim": None, "num_key_value_heads": None}),
    "t5encoder": ("T5Config", "T5EncoderModel", {**T5, "feed_forward_proj": "gated-gelu"}),
    "t5": ("T5Config", "T5ForConditionalGeneration", {**T5, "num_decoder_layers": 2}),
    "t5+gated": ("T5Config", "T5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu",
                                                            "tie_word_embeddings": False}),
    "umt5": ("UMT5Config", "UMT5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu"}),
    "modern-bert+classes": ("ModernBertConfig", "ModernBertForSequenceClassification", {
        "head_dim": None, "num_key_value_heads": None, "num_hidden_layers": 4, "local_attention": 20,
        "classifier_pooling": "mean", "num_labels": 1}),
    "bert+classes": ("BertConfig", "BertForSequenceClassification", {
        "head_dim": None, "num_key_value_heads": None, "id2label": {0: "bad", 1: "middling", 2: "good"}}),
    "roberta+classes": ("XLMRobertaConfig", "XLMRobertaForSequenceClassification", {
        "head_dim": None, "num_key_value_heads": None, "pad_token_id": 1, "bos_token_id": 0, "num_labels": 1}),
    "qwen3+classes": ("Qwen3Config", "Qwen3ForSequenceClassification", {"num_labels": 2}),
}  # fmt: skip
ENCODERS = ("bert", "bert+tanh", "roberta", "nomic-bert", "modern-bert", "modern-bert+yarn", "jina-bert-v3",
            "gemma-embedding", "t5encoder")  # fmt: skip
ENCODER_DECODERS = ("t5", "t5+gated", "umt5")
# Models without a class in transformers, whose values the tests compute in NumPy, by the value of general.architecture
BY_NUMPY = {"rwkv6": "rwkv6", "rwkv6+fla": "rwkv6", "rwkv7": "rwkv7", "jina-bert-v2": "jina-bert-v2",
            "jina-bert-v2+code": "jina-bert-v2", "nomic-bert-moe": "nomic-bert-moe"}  # fmt: skip
CLASSIFIERS = ("bert+classes", "roberta+classes", "modern-bert+classes", "qwen3+classes")
# Kinds whose gradients are recorded: at least one of each group
WITH_GRADIENTS = ("llama+llama3", "mixtral", "qwen3", "qwen3moe", "glm4moe", "granitemoe+shared", "phi3+longrope",
                  "glm4", "olmo3", "phi2", "gptneox+serial", "falcon+new", "cohere2", "gemma2", "gemma3", "gpt2",
                  "qwen3next", "lfm2moe", "mamba", "falcon-mamba", "mamba2", "granitehybrid",
                  "falcon-h1", "nemotron_h_moe", "deepseek2", "deepseek3", "gpt-oss+limit", "llama4+chunks", "phimoe",
                  "minicpm3", "gemma3n", "exaone4", "mistral3", "bitnet", "stablelm+parallel", "starcoder2", "nemotron",
                  "qwen3vl", "t5+gated")  # fmt: skip
# Kinds for which adapters of PEFT are recorded, and the settings of these
ADAPTERS: dict[str, dict[str, Any]] = {
    "llama+llama3": {"r": 4, "lora_alpha": 12, "use_rslora": True, "target_modules": [
        "embed_tokens", "q_proj", "k_proj", "o_proj", "down_proj", "lm_head"]},
    "qwen3": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "up_proj"],
              "rank_pattern": {"layers.1.self_attn.v_proj": 2}, "alpha_pattern": {"up_proj": 3}},
    "gpt2": {"r": 3, "lora_alpha": 6, "target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True},
    "bert": {"r": 2, "lora_alpha": 4, "target_modules": ["query", "attention.output.dense", "intermediate.dense"],
             "task_type": "FEATURE_EXTRACTION"},
    "bert+classes": {"r": 2, "lora_alpha": 4, "target_modules": ["value", "pooler.dense", "classifier"]},
    # Modules that have other names than the tensors of a folder, some of them parts of a tensor
    "nomic-bert": {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj", "o_proj", "up_proj"],
                   "rank_pattern": {"layers.1.self_attn.v_proj": 3}, "task_type": "FEATURE_EXTRACTION"},
    "jina-bert-v3": {"r": 2, "lora_alpha": 4, "target_modules": ["k_proj", "v_proj", "fc1", "fc2"],
                     "task_type": "FEATURE_EXTRACTION"},
    "gptneox": {"r": 2, "lora_alpha": 4, "target_modules": ["query_key_value", "lm_head"]},
    # Parameters of all experts of a layer
    "qwen3moe": {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "target_parameters": [
        "mlp.experts.gate_up_proj", "mlp.experts.down_proj"]},
    "mixtral": {"r": 2, "lora_alpha": 4, "target_modules": ["v_proj"], "target_parameters": [
        "mlp.gate.weight", "layers.1.mlp.experts.down_proj"]},
    "gpt-oss": {"r": 2, "lora_alpha": 4, "use_rslora": True, "target_modules": ["q_proj"], "target_parameters": [
        "0.mlp.experts.gate_up_proj", "1.mlp.experts.down_proj", "2.mlp.experts.gate_up_proj",
        "2.mlp.experts.down_proj"]},
    "llama4": {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "target_parameters": [
        "feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"]},
    "granitemoe+shared": {"r": 2, "lora_alpha": 4, "target_modules": ["shared_mlp.input_linear"],
                          "target_parameters": ["experts.gate_up_proj", "experts.down_proj"]},
    "nemotron_h_moe": {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "target_parameters": [
        "experts.up_proj", "experts.down_proj"]},
}  # fmt: skip
# Matrices of the kind "t5+gated" that have an adapter whose gradients are recorded: by their names in files
T5_ADAPTED = {
    "enc.blk.0.attn_q": "encoder.block.0.layer.0.SelfAttention.q",
    "enc.blk.2.ffn_down": "encoder.block.2.layer.1.DenseReluDense.wo",
    "dec.blk.0.attn_v": "decoder.block.0.layer.0.SelfAttention.v",
    "dec.blk.1.cross_attn_k": "decoder.block.1.layer.1.EncDecAttention.k",
    "dec.blk.2.cross_attn_o": "decoder.block.2.layer.1.EncDecAttention.o",
    "dec.blk.2.ffn_gate": "decoder.block.2.layer.2.DenseReluDense.wi_0",
}
T5_LORA = DATA.parent / "lora_gradients_t5.npz"
T5_RANK, T5_ALPHA = 3, 6.0
# Kinds with a state of each sequence
RECURRENT = ("lfm2", "lfm2moe", "qwen3next", "qwen35", "qwen35moe", "mamba", "mamba2", "granitehybrid",
             "falcon-h1", "nemotron_h_moe")  # fmt: skip
# Kinds with a layer that predicts further tokens (scripts/record_further.py): the layer of the model that it is like
FURTHER = {"glm4moe": 1, "deepseek3": 1, "qwen3next": 3, "qwen35": 3, "qwen35moe": 1}
# Kinds whose config.json differs from what transformers writes: the settings that are others
OTHER_SETTINGS: dict[str, dict[str, Any]] = {
    # which transformers computes by another class
    "minicpm": {"architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm", "scale_emb": 12, "scale_depth": 1.4,
                "dim_model_base": 32, "attention_multiplier": None, "embedding_multiplier": None,
                "residual_multiplier": None, "logits_scaling": None},
    # as the published models have it, in place of per_layer_config
    "gemma4+experts": {"per_layer_config": None, "global_head_dim": 32, "num_global_key_value_heads": 1},
}  # fmt: skip
# Kinds with factors for short contexts and for long ones: the context of the training
ORIGINAL_CONTEXTS = {"phi3+longrope": 64, "deepseek2+longrope": 64}


def settings_of(settings: dict[str, Any]) -> dict[str, Any]:
    """SIZES, and what differs; of a model of texts and images in its text_config."""
    if "text_config" in settings:
        return {**settings, "text_config": settings_of(settings["text_config"])}
    return {name: value for name, value in {**SIZES, **settings}.items() if value is not None}


def further_shapes(kind: str, config: dict[str, Any], shapes: dict[str, list[int]]) -> dict[str, list[int]]:
    """The shapes of a model with a layer that predicts further tokens, and of that one, by their published names."""
    width, count = config["hidden_size"], config["num_hidden_layers"]
    like = f"model.layers.{FURTHER[kind]}."
    layer = {name.removeprefix(like): shape for name, shape in shapes.items() if name.startswith(like)}
    if kind.startswith("qwen"):
        names = ("fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")
        before, prefix = "mtp.", "mtp.layers.0."
    else:
        names = ("eh_proj", "enorm", "hnorm", "shared_head.norm")
        before = prefix = f"model.layers.{count}."
    found = {**shapes, **{prefix + name: shape for name, shape in layer.items()}}
    found |= {f"{before}{name}.weight": [width] if i else [width, 2 * width] for i, name in enumerate(names)}
    if kind == "deepseek3":
        found |= {f"{before}{name}.weight": [VOCAB, width] for name in ("embed_tokens", "shared_head.head")}
    return found


def class_of(kind: str) -> str:
    """The class that config.json names."""
    return OTHER_SETTINGS.get(kind, {}).get("architectures", [KINDS[kind][1]])[0]


def tokens(length: int, seed: int = 0) -> list[int]:
    """A text of token ids, none of which is special."""
    return np.random.default_rng([length, seed]).integers(3, VOCAB, length).tolist()


def t5_pair() -> tuple[list[int], list[int]]:
    """What the encoder reads and the decoder writes for T5_LORA."""
    return tokens(19), [*tokens(10, 1), 1]


def types(kind: str, length: int) -> list[int] | None:
    """Which text of a pair each token is of, for a model that tells them apart."""
    return [0] * (length // 3) + [1] * (length - length // 3) if kind == "bert+classes" else None


def rows(length: int) -> np.ndarray:
    """The tokens whose logits are recorded: some, and the last."""
    return np.unique(np.r_[np.arange(0, length, 4 if length < 100 else 20), length - 1])


def weight(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Random values of a tensor: matrices of variance 1 / n_in, norms around 1, small biases; f32."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    values = rng.standard_normal(shape, dtype=np.float32)
    if name.endswith(("_min", "_max")):  # limits
        return (1 + abs(values)) * (-1 if name.endswith("_min") else 1)
    if len(shape) < 2:
        return 1 + 0.2 * values if name.endswith(("weight", "scalar", "scale")) else 0.1 * values
    return (values / np.sqrt(shape[-1])).astype(np.float32)


def results_of(kind: str, model: Any) -> np.ndarray:
    """What is recorded of the text of 48 tokens, as a model of ggml gives it."""
    ids = tokens(48)
    if kind in ENCODERS:
        return model.embed([ids], pooling="mean")[0]
    if kind in CLASSIFIERS:
        return model.classify([ids], types=[types(kind, 48) or [0] * 48])[0]
    return model.logits(ids)[rows(48)]


def decoder_tokens(length: int) -> list[int]:
    """The text of a decoder whose encoder has read another one: it begins with token 0."""
    return [0, *tokens(length, 1)[1:]]


def error(found: Any, expected: Any) -> float:
    """The normalised mean square error."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return float(((found - expected) ** 2).sum() / (expected**2).sum())


def check_together(model: Any, prompts: list[list[int]], other: Any = None) -> None:
    """Texts that are written together are those that each prompt gets alone, of this model or of another one."""
    greedy, other = {"max_tokens": 8, "temperature": 0}, other or model
    alone = []
    for prompt in prompts:
        other.reset()
        text = other.generate(prompt, **greedy)
        list(text)
        alone.append(text.ids)
    many = model.generate_many(prompts, **greedy)
    list(many)
    assert [text.ids for text in many.texts] == alone


def direction(name: str, shape: tuple[int, ...], number: int) -> np.ndarray:
    """A random tensor, with which a gradient is multiplied; f32."""
    rng = np.random.default_rng([number, zlib.crc32(f"direction {name}".encode())])
    return rng.standard_normal(shape, dtype=np.float32)


def write_shard(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Writes a file of safetensors: the length of the header, the header in JSON, the values."""
    names = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.uint16): "BF16",
             np.dtype(np.int64): "I64", np.dtype(np.uint8): "U8"}  # fmt: skip
    header: dict[str, Any] = {}
    offset = 0
    for name, values in tensors.items():
        place = [offset, offset + values.nbytes]
        header[name] = {"dtype": names[values.dtype], "shape": list(values.shape), "data_offsets": place}
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # as the library writes it
    data = b"".join(values.tobytes() for values in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_folder(folder: Path, config: dict[str, Any], shapes: dict[str, list[int]], seed: int = 0,
                 shards: int = 1, kind: Any = np.float32) -> Path:  # fmt: skip
    """Writes config.json and the weights, in one file or in shards with an index; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: weight(name, tuple(shape), seed).astype(kind) for name, shape in shapes.items()}
    if shards == 1:
        write_shard(folder / "model.safetensors", tensors)
        return folder
    places = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = dict(list(tensors.items())[i::shards])
        write_shard(folder / file, part)
        places |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def write_adapter(folder: Path, config: dict[str, Any], shapes: dict[str, list[int]]) -> Path:
    """Writes the folder of an adapter of PEFT; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    values = {name: weight(name, tuple(shape), 1) for name, shape in shapes.items()}
    write_shard(folder / "adapter_model.safetensors", values)
    return folder


def record(kind: str) -> dict[str, Any]:
    """What was recorded of a kind: config, shapes, and an array for each of LENGTHS."""
    with np.load(DATA / f"{kind}.npz") as data:
        found: dict[str, Any] = {name: data[name] for name in data.files}
    for name in ("config", "shapes"):
        found[name] = json.loads(str(found[name]))
    found["config"] |= OTHER_SETTINGS.get(kind, {})
    return found
