[% if not waits %]
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    status = [[ name ]]_run([[ run_arguments ]]);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
[% endif %]
