"""The constants of llama.h that programs import: names without LLAMA_, by what they begin with, and their values."""

from __future__ import annotations

import ggml

GROUPS = {
    "": (
        "MAX_DEVICES=16 DEFAULT_SEED=4294967295 TOKEN_NULL=-1"
    ),
    "FILE_MAGIC_": (
        "GGLA=1734831201 GGSN=1734833006 GGSQ=1734833009"
    ),
    "SESSION_": (
        "MAGIC=1734833006 VERSION=10"
    ),
    "STATE_SEQ_": (
        "MAGIC=1734833009 VERSION=3"
    ),
    "VOCAB_TYPE_": (
        "NONE=0 SPM=1 BPE=2 WPM=3 UGM=4 RWKV=5 PLAMO2=6 TEST=7"
    ),
    "VOCAB_PRE_TYPE_": (
        "DEFAULT=0 LLAMA3=1 DEEPSEEK_LLM=2 DEEPSEEK_CODER=3 FALCON=4 MPT=5 STARCODER=6 GPT2=7 REFACT=8 "
        "COMMAND_R=9 STABLELM2=10 QWEN2=11 OLMO=12 DBRX=13 SMAUG=14 PORO=15 CHATGLM3=16 CHATGLM4=17 VIKING=18 "
        "JAIS=19 TEKKEN=20 SMOLLM=21 CODESHELL=22 BLOOM=23 GPT3_FINNISH=24 EXAONE=25 CHAMELEON=26 MINERVA=27 "
        "DEEPSEEK3_LLM=28 GPT4O=29 SUPERBPE=30 TRILLION=31 BAILINGMOE=32 LLAMA4=33 PIXTRAL=34 SEED_CODER=35"
    ),
    "ROPE_TYPE_": (
        "NONE=-1 NORM=0 NEOX=2 MROPE=8 IMROPE=40 VISION=24"
    ),
    "TOKEN_TYPE_": (
        "UNDEFINED=0 NORMAL=1 UNKNOWN=2 CONTROL=3 USER_DEFINED=4 UNUSED=5 BYTE=6"
    ),
    "TOKEN_ATTR_": (
        "UNDEFINED=0 UNKNOWN=1 UNUSED=2 NORMAL=4 CONTROL=8 USER_DEFINED=16 BYTE=32 NORMALIZED=64 LSTRIP=128 "
        "RSTRIP=256 SINGLE_WORD=512"
    ),
    "FTYPE_": (
        "ALL_F32=0 GUESSED=1024"
    ),
    "FTYPE_MOSTLY_": (
        "F16=1 Q4_0=2 Q4_1=3 Q8_0=7 Q5_0=8 Q5_1=9 Q2_K=10 Q3_K_S=11 Q3_K_M=12 Q3_K_L=13 Q4_K_S=14 Q4_K_M=15 "
        "Q5_K_S=16 Q5_K_M=17 Q6_K=18 IQ2_XXS=19 IQ2_XS=20 Q2_K_S=21 IQ3_XS=22 IQ3_XXS=23 IQ1_S=24 IQ4_NL=25 "
        "IQ3_S=26 IQ3_M=27 IQ2_S=28 IQ2_M=29 IQ4_XS=30 IQ1_M=31 BF16=32 TQ1_0=36 TQ2_0=37 MXFP4_MOE=38 "
        "NVFP4=39 Q1_0=40 Q2_0=41"
    ),
    "ROPE_SCALING_TYPE_": (
        "UNSPECIFIED=-1 NONE=0 LINEAR=1 YARN=2 LONGROPE=3 MAX_VALUE=3"
    ),
    "POOLING_TYPE_": (
        "UNSPECIFIED=-1 NONE=0 MEAN=1 CLS=2 LAST=3 RANK=4"
    ),
    "ATTENTION_TYPE_": (
        "UNSPECIFIED=-1 CAUSAL=0 NON_CAUSAL=1"
    ),
    "FLASH_ATTN_TYPE_": (
        "AUTO=-1 DISABLED=0 ENABLED=1"
    ),
    "SPLIT_MODE_": (
        "NONE=0 LAYER=1 ROW=2 TENSOR=3"
    ),
    "KV_OVERRIDE_TYPE_": (
        "INT=0 FLOAT=1 BOOL=2 STR=3"
    ),
}


def constants() -> dict[str, int]:
    """All of them by their names, with the types of tensors (GGML_TYPE_*)."""
    named = ((prefix + item).split("=") for prefix, items in GROUPS.items() for item in items.split())
    found = {"LLAMA_" + name: int(value) for name, value in named}
    return found | {name: value for name, value in vars(ggml).items() if name.startswith("GGML_TYPE_")}
