"""Optional packages: what the functions share that need one."""

from importlib import import_module

# Modules that pip knows by another name.
DISTRIBUTIONS = {"PIL": "pillow", "re2": "google-re2", "sklearn": "scikit-learn"}


def require(prefix, modules, install):
    """Raises an error that says what to install, unless all modules can be imported.

    Args:
        prefix: beginning of the message, the name of the public function and a colon, or "".
        modules: names of the modules.
        install: what pip has to install, as on its command line.
    Raises:
        ModuleNotFoundError: a package is missing.
    """
    missing = []
    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            package = module.partition(".")[0]
            if (error.name or "").partition(".")[0] != package:  # it is installed, but lacks something itself
                raise
            missing.append(DISTRIBUTIONS.get(package, package))
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        text = f"{prefix}{' and '.join(missing)} {verb} missing: pip install {install}"
        raise ModuleNotFoundError(text, name=missing[0])
