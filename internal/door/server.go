package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is an http.Server with limits that slow and idle clients meet and
// event streams do not. It is a lifecycle.Service: Start listens, Run serves,
// Stop ends the streams and lets other requests finish.
type Server struct {
	http     *http.Server
	addr     string
	secure   *tls.Config // nil = plain HTTP
	stopping chan struct{}
	stopOnce sync.Once
	mu       sync.Mutex
	ln       net.Listener
}

type stoppingKey struct{}

// Stopping is closed when the server that serves ctx's request begins to stop.
// Streams end then, so that clients resume elsewhere.
func Stopping(ctx context.Context) <-chan struct{} {
	ch, _ := ctx.Value(stoppingKey{}).(chan struct{})
	return ch
}

// NewServer returns a server for handler on addr ("127.0.0.1:0" picks a port).
func NewServer(addr string, handler http.Handler) *Server {
	s := &Server{addr: addr, stopping: make(chan struct{})}
	s.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// No ReadTimeout and no WriteTimeout: they would cut streams. The door
		// sets both deadlines per request.
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), stoppingKey{}, s.stopping)
		},
	}
	return s
}

// Secure makes the server speak TLS, HTTP/1.1 within it. Call it before Start.
func (s *Server) Secure(c Certificates) error {
	config, err := c.config()
	s.secure = config
	return err
}

// Name implements lifecycle.Service.
func (s *Server) Name() string { return "http " + s.addr }

// Start listens; the address is known when it returns.
func (s *Server) Start(ctx context.Context) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.addr, err)
	}
	s.mu.Lock()
	s.ln = ln
	s.mu.Unlock()
	return nil
}

// Address is the host and port that Start bound; before, the one asked for.
func (s *Server) Address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ln == nil {
		return s.addr
	}
	return s.ln.Addr().String()
}

// Run serves until ctx is done or Stop was called.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	ln := s.ln
	s.mu.Unlock()
	if ln == nil {
		return errors.New("http server was not started")
	}
	failed := make(chan error, 1)
	if s.secure != nil {
		ln = tls.NewListener(ln, s.secure)
	}
	go func() { failed <- s.http.Serve(ln) }()
	select {
	case <-ctx.Done():
		return nil // Stop ends Serve
	case err := <-failed:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serve %s: %w", s.addr, err)
	}
}

// Stop closes the listener, ends streams and waits for other requests until
// ctx ends; then it cuts what is left.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { close(s.stopping) })
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stop %s: %w", s.addr, err), s.http.Close())
	}
	return nil
}
