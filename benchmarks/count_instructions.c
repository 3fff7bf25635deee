/* A plugin of QEMU's user emulation: how many instructions run in each function, exactly.
 *
 *   qemu-aarch64 -plugin ./count.so,out=FILE program     writes a line "count name" for each function
 *
 * The declarations are those of version 1 of the plugin interface, which needs no header of QEMU's. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t n);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*on_block)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int add, void *counter, uint64_t amount);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*on_exit)(uint64_t id, void *user), void *user);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { MOST = 8192 };
static struct {
    char name[96];
    uint64_t count;
} functions[MOST];
static int known;
static const char *out = "counts.txt";

/* A block of instructions is translated once, and from then on adds its length to its function's count. */
static void on_block(uint64_t id, struct qemu_plugin_tb *tb)
{
    const char *const symbol = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(tb, 0));
    const char *const name = symbol ? symbol : "?";
    int n = 0;
    (void)id;
    while (n < known && strcmp(functions[n].name, name) != 0) ++n;
    if (n == MOST) n = MOST - 1;
    if (n == known) snprintf(functions[known++].name, sizeof functions->name, "%s", name);
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &functions[n].count, qemu_plugin_tb_n_insns(tb));
}

static void on_exit(uint64_t id, void *user)
{
    FILE *const file = fopen(out, "w");
    (void)id, (void)user;
    if (!file) return;
    for (int n = 0; n < known; ++n) fprintf(file, "%llu %s\n", (unsigned long long)functions[n].count, functions[n].name);
    fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int n = 0; n < argc; ++n)
        if (strncmp(argv[n], "out=", 4) == 0) out = argv[n] + 4;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
    qemu_plugin_register_atexit_cb(id, on_exit, NULL);
    return 0;
}
