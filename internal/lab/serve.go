package lab

import (
	"net"
	"net/http"
	"time"
)

// Serve answers with handler at a free port of loopback until the server is closed.
// The address begins with "http://" and has no path.
func Serve(handler http.Handler) (url string, server *http.Server, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server = &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	return "http://" + l.Addr().String(), server, nil
}
