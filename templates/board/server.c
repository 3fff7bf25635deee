/* [[ name ]]_server.c: answers a host by the first serial port of the board that QEMU emulates, a CMSDK UART:
 *
 *   make server; [[ board.emulator|join(" ")|replace("-serial none", "-serial tcp::5555,server") ]] server
 *   ingot verify MODEL --target [[ target ]] --board tcp:localhost:5555
 *
 * For another board: read_port, write_port and read_clock of your own.
 *
 * [[ stamp ]]
 */
#include "[[ name ]].h"

#include "ingot_serve.h"

double board_seconds(void); /* board.c */
int [[ name ]]_serve(const ingot_port *port);

#define UART(offset) (*(volatile uint32_t *)(uintptr_t)([[ "0x%X" % board.uart ]]u + (offset)))
#define UART_DATA UART(0x0)
#define UART_STATE UART(0x4) /* bit 0: full to send, bit 1: there is something to receive */
#define UART_CTRL UART(0x8)  /* bits 0, 1: on */
#define UART_DIVIDER UART(0x10)

static int read_port(void *user, void *data, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes; ++i) {
        while ((UART_STATE & 2u) == 0) {}
        ((unsigned char *)data)[i] = (unsigned char)UART_DATA;
    }
    return 0;
}

static int write_port(void *user, const void *data, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes; ++i) {
        while ((UART_STATE & 1u) != 0) {}
        UART_DATA = ((const unsigned char *)data)[i];
    }
    return 0;
}

static uint64_t read_clock(void *user)
{
    (void)user;
    return (uint64_t)(board_seconds() * 1e9);
}

int main(void)
{
    const ingot_port port = {read_port, write_port, read_clock, 1000000000u, NULL};
    UART_DIVIDER = 16;
    UART_CTRL = 3;
    return [[ name ]]_serve(&port);
}
