// Package lifecycle starts the parts of a process in order, watches them, and
// stops them in reverse so that work in flight is finished first.
//
// It guarantees that a part is stopped before whatever it stands on, and that
// one part's failure stops the rest. It knows nothing about what the parts do.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrStopping is the cause of every context that ends because the process shuts
// down. Work cut short by it did not fail: it counts no attempt.
var ErrStopping = errors.New("stopping")

// Service is one part of a process.
type Service interface {
	// Name is a short word for messages: "runner", "edge".
	Name() string
	// Start returns when the service is ready for work, or with the reason why
	// it is not. Its context lives as long as the service: goroutines that
	// Start leaves behind may use it, and Stop must end them.
	Start(ctx context.Context) error
	// Run blocks until ctx is done (then it returns nil or ctx's error) or
	// until the service has failed. ctx ends after Stop has returned, with the
	// cause ErrStopping, so that loops which work in flight depends on go on
	// while it is drained. Returning before Stop was called stops the whole
	// process; from then on it may return nil whenever it is done.
	Run(ctx context.Context) error
	// Stop takes no more work in, lets work in flight finish, and returns
	// before ctx's deadline. It must not wait for Run.
	Stop(ctx context.Context) error
}

// Funcs makes a Service of functions; the nil ones do nothing (a nil OnRun
// blocks until its context is done).
type Funcs struct {
	ServiceName string
	OnStart     func(context.Context) error
	OnRun       func(context.Context) error
	OnStop      func(context.Context) error
}

var _ Service = Funcs{}

// Name returns ServiceName.
func (f Funcs) Name() string { return f.ServiceName }

// Start calls OnStart.
func (f Funcs) Start(ctx context.Context) error {
	if f.OnStart == nil {
		return nil
	}
	return f.OnStart(ctx)
}

// Run calls OnRun.
func (f Funcs) Run(ctx context.Context) error {
	if f.OnRun == nil {
		<-ctx.Done()
		return nil
	}
	return f.OnRun(ctx)
}

// Stop calls OnStop.
func (f Funcs) Stop(ctx context.Context) error {
	if f.OnStop == nil {
		return nil
	}
	return f.OnStop(ctx)
}

// Group runs services together. The zero value is empty and ready. It is not
// safe for concurrent use; Run may be called once.
type Group struct {
	// OnReady, when set, is called once every service has started.
	OnReady func()
	// OnStopping, when set, is called when the stop begins, before any service
	// is stopped; reason is nil for an ordered stop. It may wait, so that load
	// balancers see readiness fall first.
	OnStopping func(reason error)

	services []Service
}

// Add appends a service. It starts after those added before it and stops
// before them.
func (g *Group) Add(s Service) { g.services = append(g.services, s) }

type started struct {
	Service
	cancel   context.CancelCauseFunc // ends Run's context
	done     chan struct{}           // closed when Run has returned
	stopping *atomic.Bool            // Stop has been called
}

// Run starts every service in order and blocks until ctx is done or a service
// exits; then it stops the started ones in reverse. All stops together get
// grace, and each at least half a second, so that one that uses the grace up does
// not keep the rest from an orderly end. What has not stopped by then is left
// behind and named in the error.
// The first failure is reported first. An ordered stop without trouble is nil.
func (g *Group) Run(ctx context.Context, grace time.Duration) error {
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(ErrStopping)

	var running []started
	exits := make(chan error, len(g.services))
	var failure error
	for _, s := range g.services {
		if ctx.Err() != nil {
			break
		}
		if err := g.start(ctx, base, s); err != nil {
			if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
				failure = fmt.Errorf("start %s: %w", s.Name(), err)
			}
			break
		}
		runCtx, cancel := context.WithCancelCause(base)
		r := started{Service: s, cancel: cancel, done: make(chan struct{}), stopping: &atomic.Bool{}}
		running = append(running, r)
		go func() {
			defer close(r.done)
			err := s.Run(runCtx)
			switch {
			case runCtx.Err() != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrStopping)):
			case err == nil && r.stopping.Load():
			case err == nil:
				exits <- fmt.Errorf("%s: exited while it should run", s.Name())
			default:
				exits <- fmt.Errorf("%s: %w", s.Name(), err)
			}
		}()
	}
	if failure == nil && ctx.Err() == nil {
		if g.OnReady != nil {
			g.OnReady()
		}
		select {
		case <-ctx.Done():
		case failure = <-exits:
		}
	}
	if g.OnStopping != nil {
		g.OnStopping(failure)
	}
	errs := []error{failure}
	stopCtx, cancel := context.WithTimeout(base, grace)
	defer cancel()
	for i := len(running) - 1; i >= 0; i-- {
		if err := running[i].stop(stopCtx); err != nil {
			errs = append(errs, err)
		}
	}
	for {
		select {
		case err := <-exits:
			errs = append(errs, err)
			continue
		default:
		}
		return errors.Join(errs...)
	}
}

// start calls Start with a context that outlives it but ends early when the
// process is told to stop while the service is still starting.
func (g *Group) start(ctx, base context.Context, s Service) error {
	startCtx, cancel := context.WithCancelCause(base)
	release := context.AfterFunc(ctx, func() { cancel(ErrStopping) })
	err := s.Start(startCtx)
	release() // from here on only the end of Run ends its context
	if err != nil {
		cancel(err)
	}
	return err
}

// minStop is how long a service may take to stop when others have used up the
// grace.
const minStop = 500 * time.Millisecond

func (r started) stop(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < minStop {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), minStop)
		defer cancel()
	}
	r.stopping.Store(true)
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(ctx) }()
	var err error
	select {
	case err = <-stopped:
		if err != nil {
			err = fmt.Errorf("stop %s: %w", r.Name(), err)
		}
	case <-ctx.Done():
		err = fmt.Errorf("stop %s: still busy at the deadline", r.Name())
	}
	r.cancel(ErrStopping)
	select {
	case <-r.done:
	case <-ctx.Done():
		// Its context has just ended; give a loop that watches it a moment.
		select {
		case <-r.done:
		case <-time.After(100 * time.Millisecond):
			err = errors.Join(err, fmt.Errorf("%s: did not return at the deadline", r.Name()))
		}
	}
	return err
}
