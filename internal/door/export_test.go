package door

import (
	"net"
	"net/http"
	"time"
)

// Hasten shortens the deadlines of headers and of a stream's events and tells
// watch of every connection. It belongs before Run, in a test that runs alone.
func (s *Server) Hasten(deadline time.Duration, watch func(net.Conn, http.ConnState)) (restore func()) {
	headers, within := deadline, streamWriteWithin
	streamWriteWithin = deadline
	s.http.ReadHeaderTimeout = headers
	s.http.ConnState = watch
	return func() { streamWriteWithin = within }
}
