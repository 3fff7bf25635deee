// main.cpp: which digits are on pictures? The network as a C++ object, from the two files of --single-file.
//
//   ./digits_cpp ../pictures/7.pgm ../pictures/3.pgm
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include "digits.h"

// One instance of the network. Each thread may have its own; they share nothing but the constant weights.
class Digits {
public:
    using Image = std::array<float, DIGITS_IMAGE_SIZE>;
    using Scores = std::array<float, DIGITS_SCORES_SIZE>;

    Digits() : arena_(new Arena)
    {
        check(digits_init(&net_, arena_->bytes, sizeof arena_->bytes));
    }

    Scores operator()(const Image &image)
    {
        Scores scores;
        check(digits_run(net_, image.data(), scores.data()));
        return scores;
    }

private:
    // `new` aligns to at least what the type asks for from C++17 on.
    struct alignas(DIGITS_ARENA_ALIGN) Arena {
        unsigned char bytes[DIGITS_ARENA_BYTES];
    };

    static void check(ingot_status status)
    {
        if (status != INGOT_OK) throw std::runtime_error(ingot_status_str(status));
    }

    std::unique_ptr<Arena> arena_; // which the instance lives in: it moves with the object, the memory does not
    digits *net_ = nullptr;
};

static Digits::Image read_picture(const std::string &path)
{
    std::ifstream file(path);
    std::string kind;
    std::size_t width = 0, height = 0;
    float brightest = 0;
    Digits::Image image;
    file >> kind >> width >> height >> brightest;
    if (kind != "P2" || width * height != image.size() || !(brightest > 0))
        throw std::runtime_error(path + " is not a plain portable graymap of 8 x 8 pixels");
    for (float &pixel : image) {
        file >> pixel;
        pixel /= brightest;
    }
    if (!file) throw std::runtime_error(path + " ends too early");
    return image;
}

int main(int argc, char **argv)
try {
    Digits network;
    for (int i = 1; i < argc; ++i) {
        const Digits::Scores scores = network(read_picture(argv[i]));
        const auto best = std::max_element(scores.begin(), scores.end());
        std::printf("%s: %d (%.1f %%)\n", argv[i], static_cast<int>(best - scores.begin()), 100.0 * double(*best));
    }
    return argc > 1 ? 0 : 2;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
