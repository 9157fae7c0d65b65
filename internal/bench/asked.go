package bench

import (
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"sync"
)

// asked is the other system of all workloads, in this process: tools and the official
// SDK ask it. It knows the token of the databases' administrator.
type asked struct {
	url, token string
	server     *http.Server
	serving    sync.WaitGroup
}

func openAsked() (*asked, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/tool", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // who asked sees what is wrong
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"done":true}`)
	})
	mux.Handle("/v1/", modelServer())
	a := &asked{url: "http://" + listener.Addr().String(), token: "hf_" + rand.Text(), server: &http.Server{Handler: mux}}
	a.serving.Go(func() { _ = a.server.Serve(listener) }) // ends with ErrServerClosed
	return a, nil
}

func (a *asked) close() error {
	defer a.serving.Wait()
	return a.server.Close()
}
