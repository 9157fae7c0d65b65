package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// startPrivate runs what "holdfast dev" runs, on a free port and below a temporary
// directory, with the definitions of files. stop ends it and takes the directory away.
// The environment's settings count, but for those that would make it share servers with
// others.
func startPrivate(ctx context.Context, files []string) (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "holdfast-try-")
	if err != nil {
		return "", nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // Postgres enters it as another user
		return "", nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) } // what is left is in the temporary directory
	var dev DevCmd
	parser, err := kong.New(&dev, kong.Name("holdfast dev"), kong.DefaultEnvars("HOLDFAST"))
	if err != nil {
		remove()
		return "", nil, err
	}
	args := []string{"--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--log-level", "error"}
	for _, f := range files {
		args = append(args, "--file", f)
	}
	if _, err := parser.Parse(args); err != nil {
		remove()
		return "", nil, usage(err)
	}
	dev.DatabaseURL, dev.DatabaseURLFile, dev.NatsURL = "", "", ""

	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- dev.serve(serving, func(p *process, _ []client.Applied, _ *devSecrets) { ready <- asURL(p.address()) })
	}()
	stop = func() {
		cancel()
		<-ended
		remove()
	}
	select {
	case url := <-ready:
		return url, stop, nil
	case err := <-ended:
		cancel()
		remove()
		if err == nil {
			err = fmt.Errorf("it stopped at once")
		}
		return "", nil, err
	case <-ctx.Done():
		stop()
		return "", nil, context.Cause(ctx)
	}
}
