"""The constants of llama.h that programs import: names without LLAMA_ or GGML_, by their beginnings, with values."""

from __future__ import annotations

from collections.abc import Mapping

import ggml

GROUPS = {
    "": ("MAX_DEVICES=16 DEFAULT_SEED=4294967295 TOKEN_NULL=-1"),
    "FILE_MAGIC_": ("GGLA=1734831201 GGSN=1734833006 GGSQ=1734833009"),
    "SESSION_": ("MAGIC=1734833006 VERSION=10"),
    "STATE_SEQ_": ("MAGIC=1734833009 VERSION=3"),
    "VOCAB_TYPE_": ("NONE=0 SPM=1 BPE=2 WPM=3 UGM=4 RWKV=5 PLAMO2=6 TEST=7"),
    "VOCAB_PRE_TYPE_": (
        "DEFAULT=0 LLAMA3=1 DEEPSEEK_LLM=2 DEEPSEEK_CODER=3 FALCON=4 MPT=5 STARCODER=6 GPT2=7 REFACT=8 "
        "COMMAND_R=9 STABLELM2=10 QWEN2=11 OLMO=12 DBRX=13 SMAUG=14 PORO=15 CHATGLM3=16 CHATGLM4=17 VIKING=18 "
        "JAIS=19 TEKKEN=20 SMOLLM=21 CODESHELL=22 BLOOM=23 GPT3_FINNISH=24 EXAONE=25 CHAMELEON=26 MINERVA=27 "
        "DEEPSEEK3_LLM=28 GPT4O=29 SUPERBPE=30 TRILLION=31 BAILINGMOE=32 LLAMA4=33 PIXTRAL=34 SEED_CODER=35"
    ),
    "ROPE_TYPE_": ("NONE=-1 NORM=0 NEOX=2 MROPE=8 IMROPE=40 VISION=24"),
    "TOKEN_TYPE_": ("UNDEFINED=0 NORMAL=1 UNKNOWN=2 CONTROL=3 USER_DEFINED=4 UNUSED=5 BYTE=6"),
    "TOKEN_ATTR_": (
        "UNDEFINED=0 UNKNOWN=1 UNUSED=2 NORMAL=4 CONTROL=8 USER_DEFINED=16 BYTE=32 NORMALIZED=64 LSTRIP=128 "
        "RSTRIP=256 SINGLE_WORD=512"
    ),
    "FTYPE_": ("ALL_F32=0 GUESSED=1024"),
    "FTYPE_MOSTLY_": (
        "F16=1 Q4_0=2 Q4_1=3 Q8_0=7 Q5_0=8 Q5_1=9 Q2_K=10 Q3_K_S=11 Q3_K_M=12 Q3_K_L=13 Q4_K_S=14 Q4_K_M=15 "
        "Q5_K_S=16 Q5_K_M=17 Q6_K=18 IQ2_XXS=19 IQ2_XS=20 Q2_K_S=21 IQ3_XS=22 IQ3_XXS=23 IQ1_S=24 IQ4_NL=25 "
        "IQ3_S=26 IQ3_M=27 IQ2_S=28 IQ2_M=29 IQ4_XS=30 IQ1_M=31 BF16=32 TQ1_0=36 TQ2_0=37 MXFP4_MOE=38 "
        "NVFP4=39 Q1_0=40 Q2_0=41"
    ),
    "ROPE_SCALING_TYPE_": ("UNSPECIFIED=-1 NONE=0 LINEAR=1 YARN=2 LONGROPE=3 MAX_VALUE=3"),
    "POOLING_TYPE_": ("UNSPECIFIED=-1 NONE=0 MEAN=1 CLS=2 LAST=3 RANK=4"),
    "ATTENTION_TYPE_": ("UNSPECIFIED=-1 CAUSAL=0 NON_CAUSAL=1"),
    "FLASH_ATTN_TYPE_": ("AUTO=-1 DISABLED=0 ENABLED=1"),
    "SPLIT_MODE_": ("NONE=0 LAYER=1 ROW=2 TENSOR=3"),
    "KV_OVERRIDE_TYPE_": ("INT=0 FLOAT=1 BOOL=2 STR=3"),
    "LOAD_MODE_": ("AUTO=-1 NONE=0 MMAP=1 MLOCK=2 MMAP_MLOCK=3 DIRECT_IO=4"),
    "LAZY_MODE_": ("OFF=0 AUTO=1 ON=2"),
    "CONTEXT_TYPE_": ("DEFAULT=0 MTP=1"),
    "PROCESS_TYPE_": ("ENCODE=0 DECODE=1"),
    "STATE_SEQ_FLAGS_": ("NONE=0 SWA_ONLY=1 PARTIAL_ONLY=1 ON_DEVICE=2"),
    "MODEL_META_KEY_SAMPLING_": (
        "SEQUENCE=0 TOP_K=1 TOP_P=2 MIN_P=3 XTC_PROBABILITY=4 XTC_THRESHOLD=5 TEMP=6 PENALTY_LAST_N=7 "
        "PENALTY_REPEAT=8 MIROSTAT=9 MIROSTAT_TAU=10 MIROSTAT_ETA=11"
    ),
}
OF_GGML = {
    "ROPE_TYPE_": "NEOX=2 MROPE=8 IMROPE=40 VISION=24",
    "NUMA_STRATEGY_": "DISABLED=0 DISTRIBUTE=1 ISOLATE=2 NUMACTL=3 MIRROR=4 COUNT=5",
}


def values(groups: Mapping[str, str], begin: str) -> dict[str, int]:
    """The constants of a table by their names, which begin with `begin`."""
    named = ((prefix + item).split("=") for prefix, items in groups.items() for item in items.split())
    return {begin + name: int(value) for name, value in named}


def constants() -> dict[str, int]:
    """All of them by their names, with the types of tensors (GGML_TYPE_*)."""
    types = {name: value for name, value in vars(ggml).items() if name.startswith("GGML_TYPE_")}
    return values(GROUPS, "LLAMA_") | values(OF_GGML, "GGML_") | types
