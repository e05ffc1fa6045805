"""The block of every type as NumPy sees it: a second statement of the formats, to hold the C tables against."""

import numpy as np

# fields in their order, with the width of the numbers that kernels read
BLOCKS = {
    "F32": "f4", "F16": "f2", "BF16": "u2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8",
    "Q4_0": "f2,16u1", "Q4_1": "f2,f2,16u1", "Q5_0": "f2,u4,16u1", "Q5_1": "f2,f2,u4,16u1", "Q8_0": "f2,32i1",
    "Q8_1": "f2,f2,32i1", "IQ4_NL": "f2,16u1", "MXFP4": "u1,16u1", "NVFP4": "4u1,32u1", "Q1_0": "f2,16u1",
    "Q2_0": "f2,16u1",
    "Q2_K": "16u1,64u1,f2,f2", "Q3_K": "32u1,64u1,12u1,f2", "Q4_K": "f2,f2,12u1,128u1", "Q5_K": "f2,f2,12u1,32u1,128u1",
    "Q6_K": "128u1,64u1,16i1,f2", "Q8_K": "f4,256i1,16i2",
    "IQ2_XXS": "f2,16u4", "IQ2_XS": "f2,32u2,8u1", "IQ2_S": "f2,32u1,32u1,8u1,8u1", "IQ3_XXS": "f2,64u1,8u4",
    "IQ3_S": "f2,64u1,8u1,32u1,4u1", "IQ1_S": "f2,32u1,8u2", "IQ1_M": "32u1,16u1,4u2", "IQ4_XS": "f2,u2,4u1,128u1",
    "TQ1_0": "48u1,4u1,f2", "TQ2_0": "64u1,f2",
}  # fmt: skip

# scales that NumPy has no dtype for: (offset, the bits that are all set in infinities and NaNs)
OTHER_SCALES = {"BF16": [(0, "807f")], "MXFP4": [(0, "ff")], "IQ1_M": [(48, "0000000000c00070")]}
EXPONENT = {2: "007c", 4: "0000807f", 8: "000000000000f07f"}


def dtype(type):
    """A structured dtype without padding, little-endian."""
    return np.dtype([(f"field{i}", "<" + field) for i, field in enumerate(BLOCKS[type].split(","))])


def scales(type):
    """Where the floating-point numbers of a block lie, and the bits of their exponents as bytes."""
    found = [(offset, bytes.fromhex(bits)) for offset, bits in OTHER_SCALES.get(type, ())]
    for field, offset in dtype(type).fields.values():
        if field.kind == "f":
            found.append((offset, bytes.fromhex(EXPONENT[field.itemsize])))
    return found
