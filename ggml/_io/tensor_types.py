"""The types of tensors by name and number, and what a model file says about them."""

import ggml

PREFIX = "GGML_TYPE_"
TYPES = {
    number: name.removeprefix(PREFIX)
    for name, number in vars(ggml).items()
    if name.startswith(PREFIX) and name != "GGML_TYPE_COUNT"
}
NUMBERS = {name: number for number, name in TYPES.items()}

# general.file_type of files in which all weights have one type
PLAIN = {"F32": 0, "F16": 1, "BF16": 32, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "Q8_0": 7, "Q6_K": 18,
         "IQ1_S": 24, "IQ1_M": 31, "IQ2_XXS": 19, "IQ2_XS": 20, "IQ2_S": 28, "IQ3_XXS": 23, "IQ3_S": 26, "IQ4_NL": 25,
         "IQ4_XS": 30, "TQ1_0": 36, "TQ2_0": 37, "MXFP4": 38, "NVFP4": 39, "Q1_0": 40, "Q2_0": 41}  # fmt: skip

# Weights that keep their type when a model is converted to another
UNCHANGED = ("*_norm.weight", "*ffn_gate_inp.weight", "*position_embd.weight", "*token_types.weight",
             "*.ssm_a", "*.ssm_d", "*ssm_conv1d.weight", "*shortconv.conv.weight", "*time_mix_[avwg][012].weight",
             "*time_mix_first.weight", "*time_mix_decay_w?.weight", "*_mix_lerp_*", "*attn_rel_b.weight",
             "*altup*", "*laurel*", "*per_layer_model_proj*", "v.patch_embd.weight",
             "*input_projection.weight")  # fmt: skip
