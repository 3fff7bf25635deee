"""The forms in which projects take a network in: Zephyr's modules, Arduino's libraries ... A form is a row of files
that go beside, or in the place of, those of the plain folder."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .c_names import PROGRAMS

BUILD_FILES = ("Makefile", "CMakeLists.txt")


@dataclass(frozen=True)
class Form:
    """Of one kind of package.

    files: {its path, a template of paths: its template in templates/packages}; usage: what the folder's README says of
    it, the template; source_folder, program_folder: where the library's files go, and those of example and self-test;
    has_build_files: whether Makefile and CMakeLists.txt of the plain folder stay; as_arrays: whether weights are words
    of C, for assemblers that know no .incbin.
    """

    name: str
    files: Mapping
    usage: str
    source_folder: str = ""
    program_folder: str = ""
    has_build_files: bool = True
    as_arrays: bool = True


FORMS = {row.name: row for row in (
    Form("zephyr", {"zephyr/module.yml": "zephyr/module.yml", "zephyr/Kconfig": "zephyr/Kconfig",
                    "zephyr/CMakeLists.txt": "zephyr/CMakeLists.txt",
                    "samples/{name}/CMakeLists.txt": "zephyr/app.txt", "samples/{name}/prj.conf": "zephyr/prj.conf",
                    "samples/{name}/src/main.c": "zephyr/main.c"}, "zephyr/usage.md"),
    Form("esp-idf", {"idf_component.yml": "esp-idf/idf_component.yml", "CMakeLists.txt": "esp-idf/CMakeLists.txt",
                     "examples/{name}/CMakeLists.txt": "esp-idf/project.txt",
                     "examples/{name}/sdkconfig.defaults": "esp-idf/sdkconfig.defaults",
                     "examples/{name}/main/CMakeLists.txt": "esp-idf/component.txt",
                     "examples/{name}/main/main.c": "esp-idf/main.c"}, "esp-idf/usage.md"),
    Form("arduino", {"library.properties": "arduino/library.properties",
                     "examples/{name}/{name}.ino": "arduino/sketch.ino"}, "arduino/usage.md",
         source_folder="src/", program_folder="extras/", has_build_files=False),
    Form("platformio", {"library.json": "platformio/library.json", "examples/{name}/{name}.ino": "arduino/sketch.ino"},
         "platformio/usage.md"),
    Form("cmsis-pack", {"Ingot.{name}.pdsc": "cmsis-pack/package.pdsc", "template/{name}_app.c": "cmsis-pack/app.c"},
         "cmsis-pack/usage.md"),
    Form("conan", {"conanfile.py": "conan/conanfile.py", "test_package/conanfile.py": "conan/test_package.py",
                   "test_package/CMakeLists.txt": "conan/app.txt", "test_package/main.c": "conan/main.c"},
         "conan/usage.md", as_arrays=False),
)}


def check_package(model, package, single_file=False):
    """The row for a package of a CompiledModel. Raises ValueError where there is none."""
    if package not in FORMS:
        raise ValueError(f"package must be one of {', '.join(FORMS)}, not {package!r}")
    if single_file:
        raise ValueError(f"a package is a folder, and so is {package}: leave out single_file (--single-file)")
    if model.target.kind != "c":
        raise ValueError(f"a package holds C alone, and {model.target} has kernels beside it: leave out package")
    if model.weights in ("file", "extern", "stream"):
        raise ValueError(f"a package holds its weights: leave out weights={model.weights!r} (--weights "
                         f"{model.weights})")
    if model.libraries:
        raise ValueError(f"a package needs nothing of its user, and {model.name} is linked with "
                         f"{', '.join(model.libraries)}: leave out package")
    if model.packed:
        calls = ", ".join(p.name for p in model.packed)
        raise ValueError(f"a package needs nothing of its user, and {model.name} calls {calls}: leave out package")
    return FORMS[package]


def portable_flags(target, cflags):
    """Flags of the C compiler without those for a board's core, which its framework gives."""
    if not (target.freestanding or target.name == "c"):
        return [*cflags]
    return [f for f in cflags if not f.startswith(("-m", "--specs"))]


def package_files(form, name, files, render, facts):
    """The files of a package: `files`, {file: text} of the plain folder, in their places, and the form's own.

    render(template, **context) gives a template's text; facts: a sentence on the network, for descriptions.
    """
    library, placed = [], {}
    for file, text in files.items():
        stem, _, end = file.rpartition(".")
        program = PROGRAMS.fullmatch(stem) or stem == "board"
        if end in ("c", "S") and not program:
            library.append(file)
        if file in BUILD_FILES and not form.has_build_files:
            continue
        of_library = end in ("c", "h", "S", "bin") and not program
        place = form.program_folder if program else form.source_folder if of_library else ""
        placed[place + file] = text
    context = {"library": library, "plain": [*files], "facts": facts,
               "library_filter": ", ".join(f'"+<{file}>"' for file in library),
               "conan_name": name.lower() if len(name) > 1 else f"{name.lower()}_net"}
    own = {path.format(name=name): template for path, template in form.files.items()}
    for path, template in own.items():
        placed[path] = render(f"packages/{template}", file=path.rpartition("/")[2], **context)
    placed["README.md"] += render(f"packages/{form.usage}", **context)
    return placed
