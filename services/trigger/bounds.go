package trigger

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Bounds are what the doors take at most.
type Bounds struct {
	// MaxBody is of a request, after decompression, and of an input after mapping;
	// no more than a template may render.
	MaxBody int64 `help:"Largest body of a webhook or a start in bytes, after decompression." default:"26214400"`
	// MaxWait is how long the answer to a start may be kept back for its run's end.
	MaxWait time.Duration `help:"How long a start may at most wait for its run." default:"60s"`
}

// DefaultMaxBody is 25 MiB.
const DefaultMaxBody = 25 << 20

func (b *Bounds) setDefaults() {
	if b.MaxBody == 0 {
		b.MaxBody = DefaultMaxBody
	}
	if b.MaxWait == 0 {
		b.MaxWait = time.Minute
	}
}

// Validate joins every problem of the bounds.
func (b Bounds) Validate() error {
	var errs []error
	if b.MaxBody != 0 && (b.MaxBody < 1<<10 || b.MaxBody > spec.MaxRenderedBytes) {
		errs = append(errs, fmt.Errorf("max-body %d is not between 1024 and %d", b.MaxBody, spec.MaxRenderedBytes))
	}
	if b.MaxWait < 0 || b.MaxWait > 10*time.Minute {
		errs = append(errs, fmt.Errorf("max-wait %s is not between 0 and 10m", b.MaxWait))
	}
	return errors.Join(errs...)
}

// Bounds are those that the service keeps to.
func (s *Service) Bounds() Bounds { return s.cfg.Bounds }
