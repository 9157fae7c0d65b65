package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
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

// Numbers are what the menu counts.
type Numbers struct {
	Running, Approvals, Doubts, Stops int
	// Most is up to where they were counted: one that reaches it means "at least".
	// Zero means that they are exact.
	Most int
	More bool // there are open runs, running or not, that were not looked at
}

// Counts shows the numbers beside their entries.
func (n Numbers) Counts() []Count {
	count := func(here string, of int, more bool, class, words string) Count {
		text := Thousands(of)
		if more || n.Most > 0 && of >= n.Most {
			text += "+"
		}
		return Count{Here: here, N: text, Class: class, Words: words, Shown: of > 0}
	}
	return []Count{
		count("runs", n.Running, n.More, "", "running"), count("approvals", n.Approvals, false, "you", "wait for a person"),
		count("effects", n.Doubts, false, "doubt", "in doubt"), count("stops", n.Stops, false, "bad", "in force"),
	}
}

// Thousands writes a number with a comma between groups of three digits; n is not negative.
func Thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", Thousands(n/1000), n%1000)
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
