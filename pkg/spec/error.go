package spec

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// maxProblems bounds how many problems of one apply are listed.
const maxProblems = 100

// Error is one problem of a definition. Line and Column count from 1; both are
// 0 for a body that was read from the catalog.
type Error struct {
	File    string
	Line    int
	Column  int
	Field   string // "spec.steps[1].needs[0]"; empty for the document itself
	Message string
}

// Error is "file:line:column: field: message" without the parts that are absent.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Problems lists every *Error that err holds, in the order of the files.
func Problems(err error) []*Error {
	if err == nil {
		return nil
	}
	if one, ok := err.(*Error); ok {
		return []*Error{one}
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*Error
		for _, e := range many.Unwrap() {
			out = append(out, Problems(e)...)
		}
		return out
	}
	return Problems(errors.Unwrap(err))
}

// join orders problems by position and bounds their number.
func join(problems []*Error) error {
	if len(problems) == 0 {
		return nil
	}
	files := map[string]int{} // in the order in which they were given
	for _, p := range problems {
		if _, ok := files[p.File]; !ok {
			files[p.File] = len(files)
		}
	}
	sort.SliceStable(problems, func(i, j int) bool {
		a, b := problems[i], problems[j]
		if a.File != b.File {
			return files[a.File] < files[b.File]
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
	errs := make([]error, 0, min(len(problems), maxProblems+1))
	for i, p := range problems {
		if i == maxProblems {
			errs = append(errs, &Error{File: p.File, Message: fmt.Sprintf("and %d more problems", len(problems)-i)})
			break
		}
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}
