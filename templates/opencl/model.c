[% extends "device/model.c" %]
[% block own_state %]
    cl_program programs[ [[- parts ]]];
    cl_kernel kernels[ [[- kernel_count or 1 ]]];
[% endblock %]
[% block load %]
    memset((*net)->programs, 0, sizeof (*net)->programs);
    memset((*net)->kernels, 0, sizeof (*net)->kernels);
[% for n in range(parts) %]
    TRY(*net, [[ name ]]_load_[[ n ]](queue, &(*net)->programs[ [[- n ]]], (*net)->kernels));
[% endfor %]
[% if uploads %]
    TRY(*net, ingot_copy(queue, arena, [[ name ]]_weights, [[ upper ]]_WEIGHTS_BYTES));
[% endif %]
[% endblock %]
[% block release %]

void [[ name ]]_release([[ name ]] *net)
{
    if (net == NULL) return;
    for (int i = 0; i < [[ kernel_count ]]; ++i) {
        if (net->kernels[i] != NULL) (void)clReleaseKernel(net->kernels[i]);
    }
    for (int i = 0; i < [[ parts ]]; ++i) {
        if (net->programs[i] != NULL) (void)clReleaseProgram(net->programs[i]);
    }
    net->magic = 0;
}
[% endblock %]
