package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
)

// waitOf is how long a start's answer is to be kept back: ?wait=N, else
// "Prefer: wait=N", never longer than most. A preference that cannot be read is
// ignored, as RFC 7240 wants it; a parameter is not.
func waitOf(r *http.Request, most time.Duration) (time.Duration, error) {
	query := r.URL.Query()
	for name := range query {
		if name != "wait" {
			return 0, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the request has a parameter that it does not take").
				At("query."+name, "unexpected query parameter; there is wait")
		}
	}
	if texts, ok := query["wait"]; ok {
		d, ok := seconds(texts[0])
		if !ok || len(texts) > 1 {
			return 0, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "wait is not a number of seconds").
				At("query.wait", fmt.Sprintf("%.40q is not a whole number of seconds", texts[0]))
		}
		return min(d, most), nil
	}
	return min(preferredWait(r.Header.Values("Prefer")), most), nil
}

// preferredWait reads the first wait of the headers Prefer.
// Source: RFC 7240, sections 2 and 4.3.
func preferredWait(lines []string) time.Duration {
	for _, line := range lines {
		for preference := range strings.SplitSeq(line, ",") {
			token, _, _ := strings.Cut(preference, ";") // parameters of wait have no meaning
			name, value, _ := strings.Cut(token, "=")
			if strings.EqualFold(strings.TrimSpace(name), "wait") {
				d, _ := seconds(strings.Trim(strings.TrimSpace(value), `"`))
				return d
			}
		}
	}
	return 0
}

func seconds(text string) (time.Duration, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return time.Duration(n) * time.Second, err == nil
}
