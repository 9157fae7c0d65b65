//go:build !linux || !amd64

package clocktest

import (
	"errors"
	"time"
)

func move(time.Duration) error {
	return errors.New("move the clock: only on linux on amd64")
}
