package door

import (
	"net"
	"net/http"
	"time"
)

// Hasten shortens the deadline of headers and tells watch of every connection.
// It belongs before Run.
func (s *Server) Hasten(headers time.Duration, watch func(net.Conn, http.ConnState)) {
	s.http.ReadHeaderTimeout = headers
	s.http.ConnState = watch
}
