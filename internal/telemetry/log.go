package telemetry

import (
	"io"
	"log/slog"
	"strings"
)

// NewLogger writes lines to w. level is debug, info, warn or error (info when
// it is none of them); format is json or text (text when it is neither).
func NewLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: l}
	if strings.EqualFold(format, "json") {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
