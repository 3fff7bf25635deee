[% extends "packages/app.c" %]
[% block headers %]
#include <Arduino.h>
[% endblock %]
[% block clock %]
static uint32_t microseconds(void)
{
    return (uint32_t)micros();
}
[% endblock %]
[% block say %]
    if (status != INGOT_OK) {
        Serial.print("[[ name ]]: ");
        Serial.println(ingot_status_str(status));
        return 1;
    }
[% endblock %]
[% block answer %]
[% for t in outputs %]
    Serial.print("[[ t.name ]]:");
[% if t.count %]
    for (size_t i = 0; i < [[ t.count ]] && i < 8; ++i) {
        Serial.print(' ');
        Serial.print((double)[[ t.name ]][i], 6);
    }
[% endif %]
    Serial.println();
[% endfor %]
    Serial.print("one run: ");
    Serial.print((unsigned long)took);
    Serial.println(" us");
[% endblock %]
[% block entry %]
void setup()
{
    Serial.begin(115200);
    while (!Serial && millis() < 3000) {
    }
    (void)infer();
}

void loop()
{
}
[% endblock %]
