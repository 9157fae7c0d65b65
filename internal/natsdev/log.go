package natsdev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
)

// logger hands the server's lines to slog (its notices are detail to us) and
// keeps the fatal one: an embedded server reports no other way why it cannot
// start.
type logger struct {
	log   *slog.Logger
	fatal atomic.Pointer[error]
}

var _ server.Logger = (*logger)(nil)

func (l *logger) Noticef(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *logger) Debugf(format string, v ...any)  { l.line(slog.LevelDebug, format, v) }
func (l *logger) Tracef(format string, v ...any)  { l.line(slog.LevelDebug, format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.line(slog.LevelWarn, format, v) }
func (l *logger) Errorf(format string, v ...any)  { l.line(slog.LevelError, format, v) }

func (l *logger) Fatalf(format string, v ...any) {
	err := errors.New(fmt.Sprintf(format, v...))
	l.fatal.CompareAndSwap(nil, &err)
	l.line(slog.LevelError, format, v)
}

func (l *logger) line(level slog.Level, format string, v []any) {
	l.log.Log(context.Background(), level, "nats server", "text", fmt.Sprintf(format, v...))
}

// failed returns the fatal line, or nil.
func (l *logger) failed() error {
	if err := l.fatal.Load(); err != nil {
		return *err
	}
	return nil
}
