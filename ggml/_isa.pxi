# A part of _core.pyx: instruction sets, and what this build is.

def isa_info():
    """A dict for each instruction set of this build: name, needs, supported (by this CPU), chosen."""
    return [{"name": gg_isa_name(i).decode(), "needs": gg_isa_needs(i).decode(),
             "supported": bool(gg_isa_supported(i)), "chosen": gg_isa_current() == i} for i in range(gg_isa_count())]

def isa_select(name):
    """Selects the kernels of an instruction set, for None the best one that this CPU supports; returns its name."""
    known = {gg_isa_name(i).decode(): i for i in range(gg_isa_count())}
    chosen = [row["name"] for row in isa_info() if row["supported"]][-1] if name is None else name
    if chosen not in known:
        raise ValueError(f"GGML_ISA: {chosen!r} is not in this build, which has {', '.join(known)}")
    if not gg_isa_select(known[chosen]):
        raise ValueError(f"GGML_ISA: this CPU has no {chosen} ({gg_isa_needs(known[chosen]).decode()})")
    return chosen

def columns_alike():
    """The most columns by which products with quantised matrices have the bits of few columns; 0: of any number."""
    return engine.isa_active().columns_alike

def cpu_has(feature):
    """Whether the CPU and the operating system support a feature; dispatch.c lists the names."""
    return bool(gg_cpu_has(arg_text(feature, b"feature")))

def build_info():
    """The compiler of this build and the default number of threads."""
    return {"compiler": GG_COMPILER.decode(), "threads": gg_default_threads()}
