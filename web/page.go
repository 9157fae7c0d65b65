package web

import (
	"bytes"
	"net/http"
	"time"
)

// Frame is what every page shows around its own part; the data of a page embeds it.
type Frame struct {
	Title, Namespace, Name, Role, Here, Notice string
	At                                         time.Time
}

// Write makes the whole page of that name before the first byte leaves.
func Write(w http.ResponseWriter, status int, name string, data any) error {
	var b bytes.Buffer
	if err := Render(&b, name, data); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", CSP)
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client is gone when this fails
	return nil
}
