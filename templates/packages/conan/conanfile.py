# [[ stamp ]]
#
#   conan create . --build=missing
from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class Recipe(ConanFile):
    name = "[[ conan_name ]]"
    version = "[[ package_version ]]"
    description = "The neural network [[ name ]], in C"
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"openmp": [True, False]}
    default_options = {"openmp": [[ "True" if openmp else "False" ]]}
    exports_sources = [
[% for f in plain %]
        "[[ f ]]",
[% endfor %]
    ]

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["[[ upper ]]_OPENMP"] = bool(self.options.openmp)
        toolchain.cache_variables["[[ upper ]]_PROGRAMS"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "[[ name ]]")
        self.cpp_info.set_property("cmake_target_name", "[[ name ]]::[[ name ]]")
        self.cpp_info.set_property("pkg_config_name", "[[ name ]]")
        self.cpp_info.libs = ["[[ name ]]"]
        self.cpp_info.includedirs = ["include/[[ name ]]"]
        if self.settings.os != "Windows":
            self.cpp_info.system_libs = ["m"]
        if self.options.openmp and self.settings.compiler != "msvc":
            self.cpp_info.exelinkflags = self.cpp_info.sharedlinkflags = ["-fopenmp"]
