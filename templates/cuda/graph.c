    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    status = [[ name ]]_run([[ run_arguments ]]);
    CUDA(cudaStreamEndCapture(stream, &graph));
    if (refused(status, net)) return 1;
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
