package web

import (
	"bytes"
	"html/template"
	"net/http"
	"time"
)

// Frame is what every page shows around its own part; the data of a page embeds it.
type Frame struct {
	Title, Namespace, Name, Role, Here, Notice string
	At                                         time.Time
	// Counts are numbers beside entries of the menu; the script keeps them true.
	Counts []Count
}

// Count is a number beside an entry of the menu.
type Count struct {
	Here  string `json:"here"` // of the entry
	N     string `json:"n"`
	Class string `json:"class,omitempty"`
	Words string `json:"words"`
	Shown bool   `json:"shown"` // false for none
}

var liveFuncs = template.FuncMap{"countAt": countAt}

// countAt finds the number of an entry; an unknown one is empty.
func countAt(all any, here string) Count {
	counts, _ := all.([]Count)
	for _, c := range counts {
		if c.Here == here {
			return c
		}
	}
	return Count{Here: here}
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
