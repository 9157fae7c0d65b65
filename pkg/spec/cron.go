package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var cronFields = []struct {
	name      string
	low, high int
	words     string // three letters each, the first means low
	special   *regexp.Regexp
}{
	{"minute", 0, 59, "", nil},
	{"hour", 0, 23, "", nil},
	{"day of month", 1, 31, "", regexp.MustCompile(`^(\?|L|LW|L-([1-9]|[12][0-9]|30)|([1-9]|[12][0-9]|3[01])W)$`)},
	{"month", 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", nil},
	{"day of week", 0, 7, "SUNMONTUEWEDTHUFRISAT", regexp.MustCompile(`^(\?|([0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5]))$`)},
}

var cronMacros = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// checkCron checks the form of a cron expression and names the field that is
// wrong. Which moments it means is decided by who fires it.
func checkCron(text string) error {
	if strings.HasPrefix(text, "@") {
		for _, m := range cronMacros {
			if text == m {
				return nil
			}
		}
		return fmt.Errorf("%q is not one of %s", shorten(text), strings.Join(cronMacros, ", "))
	}
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return fmt.Errorf("has %d fields; it needs five: minute hour day-of-month month day-of-week", len(fields))
	}
	for i, f := range cronFields {
		for part := range strings.SplitSeq(fields[i], ",") {
			if f.special != nil && f.special.MatchString(strings.ToUpper(part)) {
				continue
			}
			if err := checkCronPart(part, f.low, f.high, f.words); err != nil {
				return fmt.Errorf("%s %q: %w", f.name, shorten(part), err)
			}
		}
	}
	return checkDays(fields)
}

// checkDays refuses days that no month has, such as 30 February.
func checkDays(fields []string) error {
	if fields[4] != "*" && fields[4] != "?" || strings.Trim(fields[2], "0123456789,") != "" {
		return nil // another field may pick days, or the days are not plain numbers
	}
	last := 0
	for part := range strings.SplitSeq(fields[3], ",") {
		low, err := cronValue(part, 1, 12, cronFields[3].words)
		if err != nil {
			return nil // a range or *: it has a month of 31 days, or nearly
		}
		last = max(last, [...]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[low-1])
	}
	for part := range strings.SplitSeq(fields[2], ",") {
		if day, err := strconv.Atoi(part); err != nil || day <= last {
			return nil
		}
	}
	return fmt.Errorf("never fires: no month it names has such a day")
}

func checkCronPart(part string, low, high int, words string) error {
	body, every, stepped := strings.Cut(part, "/")
	if stepped {
		if n, err := strconv.Atoi(every); err != nil || n < 1 || n > high {
			return fmt.Errorf("the step must be 1 to %d", high)
		}
	}
	if body == "*" {
		return nil
	}
	from, to, ranged := strings.Cut(body, "-")
	a, err := cronValue(from, low, high, words)
	if err != nil || !ranged {
		return err
	}
	b, err := cronValue(to, low, high, words)
	if err == nil && b < a {
		return fmt.Errorf("the range runs backwards")
	}
	return err
}

func cronValue(s string, low, high int, words string) (int, error) {
	if i := strings.Index(words, strings.ToUpper(s)); len(s) == 3 && i >= 0 && i%3 == 0 {
		return low + i/3, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high || s[0] == '+' {
		return 0, fmt.Errorf("must be %d to %d", low, high)
	}
	return n, nil
}
