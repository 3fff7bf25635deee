// What a sketch uses of Arduino's core, for this machine: Serial is the standard output.
#include <stdint.h>
#include <stdio.h>
#include <time.h>

inline unsigned long micros() { return (unsigned long)(clock() * 1000000.0 / CLOCKS_PER_SEC); }
inline unsigned long millis() { return micros() / 1000; }

struct SerialPort {
    void begin(unsigned long) {}
    operator bool() const { return true; }
    void print(const char *text) { printf("%s", text); }
    void print(char letter) { printf("%c", letter); }
    void print(unsigned long number) { printf("%lu", number); }
    void print(double number, int digits) { printf("%.*f", digits, number); }
    void println(const char *text = "") { printf("%s\n", text); }
};
static SerialPort Serial;

void setup();
void loop();
