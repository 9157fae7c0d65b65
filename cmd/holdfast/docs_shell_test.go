package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/mdtest"
)

var showPages = flag.Bool("show", false, "print what the commands of the documents' pages print, for who writes them")

// patience is how long a page's command is repeated until it shows what the page
// shows, or how long one may take.
const patience = 60 * time.Second

// pageShell runs the commands of one page in one shell, as its reader would.
type pageShell struct {
	t      *testing.T
	in     io.Writer
	out    chan string
	plain  *strings.Replacer // what the page says of the server, and its replacements
	back   *strings.Replacer // the other way round, and its namespace
	names  map[string]string // placeholders such as RUN, set by hidden commands
	bound  map[string]string // ids on the page to those that were seen
	ran    int
	filled []filled
	took   time.Duration
}

// filled is what goes in the place of a "?" below a command.
type filled struct {
	line  int // of the command
	lines []string
}

// fill writes a page anew with what was printed in the place of each "?".
func (s *pageShell) fill(path string) {
	s.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, f := range slices.Backward(s.filled) {
		at := slices.Index(lines[f.line-1:], "?") + f.line - 1
		lines = slices.Replace(lines, at, at+1, slices.DeleteFunc(f.lines, func(line string) bool { return strings.TrimSpace(line) == "" })...)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// prelude is what hidden commands may use.
const prelude = `
curl() { command curl -sS -H "Holdfast-Namespace: $HOLDFAST_NAMESPACE" "$@"; }
field() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p' | head -n 1; }
await() { local want="$1" got i; shift; for i in $(seq 600); do got="$("$@" 2>&1)"; if grep -qE -e "$want" <<<"$got"; then return 0; fi; sleep 0.1; done; echo "$got"; return 1; }
started() { holdfast runs start "$@" --json | field run_id; }
asked() { await 'action|question|doubt' holdfast approvals list --run "$1" && holdfast approvals list --run "$1" --json | field approval_id; }
`

func newPageShell(t *testing.T, dir string, env []string, plain, back *strings.Replacer) *pageShell {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // t's ends before its clean-ups
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Dir, cmd.Env = dir, env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &pageShell{t: t, in: in, out: make(chan string, 1000), plain: plain, back: back, names: map[string]string{}, bound: map[string]string{}}
	go func() {
		defer close(s.out)
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			select {
			case s.out <- strings.TrimSuffix(line, "\n"):
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with what the page started in the background
		_ = in.Close()
		_ = cmd.Wait()
		cancel()
		_ = w.Close()
	})
	if out, code := s.do(prelude); code != 0 {
		t.Fatalf("prelude: exit %d: %v", code, out)
	}
	return s
}

// do runs one command and returns its lines and its exit code.
func (s *pageShell) do(command string) (lines []string, code int) {
	s.t.Helper()
	s.ran++
	mark := fmt.Sprintf("@@%d@@", s.ran)
	if _, err := fmt.Fprintf(s.in, "{ %s\n} 2>&1 </dev/null; printf '\\n%s %%d\\n' $?\n", command, mark); err != nil {
		s.t.Fatalf("%s: the shell has ended: %v", command, err)
	}
	late := time.After(2 * patience)
	for {
		select {
		case line, ok := <-s.out:
			if !ok {
				s.t.Fatalf("%s: the shell has ended: %q", command, lines)
			}
			line = s.back.Replace(line)
			if rest, ok := strings.CutPrefix(line, mark+" "); ok {
				code, err := strconv.Atoi(rest)
				if err != nil {
					s.t.Fatal(err)
				}
				return lines, code
			}
			lines = append(lines, line)
		case <-late:
			s.t.Fatalf("%s does not end: %q", command, lines)
		}
	}
}

// here is a command of the page with what it stands for.
func (s *pageShell) here(command string) string {
	for id, seen := range s.bound {
		command = strings.ReplaceAll(command, id, seen)
	}
	command = s.plain.Replace(command)
	return placeholder.ReplaceAllStringFunc(command, func(name string) string {
		if value, ok := s.names[name]; ok {
			return value
		}
		return name
	})
}

var (
	placeholder = regexp.MustCompile(`\b[A-Z]{3,}\b`)
	assigned    = regexp.MustCompile(`(?m)^([A-Z]{3,})=`)
	// reading finds commands that may be repeated until the answer is there.
	reading = regexp.MustCompile(`^(holdfast (\S+ )?(list|get|show|why|deleted|doctor|audit)\b|grep |cat |tail )`)
)

// block runs a block of commands.
func (s *pageShell) block(page string, b mdtest.Block) {
	s.t.Helper()
	began := time.Now()
	defer func() { s.took += time.Since(began) }()
	if b.Lang == mdtest.Hidden {
		for _, c := range commandsOf(b) {
			if out, code := s.do(s.plain.Replace(c.text)); code != 0 {
				s.t.Fatalf("%s:%d: hidden $ %s\nexit code %d:\n%s", page, b.Line+c.line, c.text, code, strings.Join(out, "\n"))
			}
		}
		for _, m := range assigned.FindAllStringSubmatch(b.Text, -1) {
			out, _ := s.do(`printf '%s\n' "$` + m[1] + `"`)
			if value := strings.TrimSpace(strings.Join(out, "\n")); value != "" {
				s.names[m[1]] = value
			} else {
				s.t.Fatalf("%s:%d: the hidden commands leave %s empty", page, b.Line, m[1])
			}
		}
		return
	}
	for _, c := range commandsOf(b) {
		command := s.here(c.text)
		for deadline := time.Now().Add(patience); ; time.Sleep(150 * time.Millisecond) {
			out, code := s.do(command)
			if *showPages && len(c.output) == 1 && c.output[0] == "?" && (code == 0 || slices.ContainsFunc(out, func(line string) bool { return strings.HasPrefix(line, "holdfast: ") })) {
				if reading.MatchString(c.text) {
					time.Sleep(2 * time.Second)
					out, _ = s.do(command)
				}
				s.filled = append(s.filled, filled{b.Line + c.line, out})
				break
			}
			problem := s.compare(c, out, code)
			if *showPages && (problem == "" || !reading.MatchString(c.text) || time.Now().After(deadline.Add(3*time.Second-patience))) {
				s.t.Logf("$ %s\n%s\n%s", command, strings.Join(out, "\n"), problem)
				if problem = ""; c.console && len(c.output) > 0 {
					s.learn(c, out)
				}
			}
			if problem == "" {
				break
			}
			if !reading.MatchString(c.text) || time.Now().After(deadline) {
				s.t.Fatalf("%s:%d: $ %s\nran as: %s\n%s\nprinted:\n%s", page, b.Line+c.line, c.text, command, problem, strings.Join(out, "\n"))
			}
		}
	}
}

// shown is one command of a block, and what the page says it prints.
type shown struct {
	text    string
	line    int // within the block
	console bool
	output  []string
}

var heredoc = regexp.MustCompile(`<<-?'?(\w+)'?`)

// commandsOf splits a block. In a console block commands begin with "$ " and what
// they print follows; in others all is commands.
func commandsOf(b mdtest.Block) (all []shown) {
	lines := strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if b.Lang == "console" {
			text, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				if len(all) > 0 {
					all[len(all)-1].output = append(all[len(all)-1].output, line)
				}
				continue
			}
			line = text
		} else if bare := strings.TrimSpace(line); bare == "" || strings.HasPrefix(bare, "#") {
			continue
		}
		c := shown{text: line, line: i, console: b.Lang == "console"}
		end := ""
		if m := heredoc.FindStringSubmatch(line); m != nil {
			end = m[1]
		}
		for i+1 < len(lines) && (end != "" || strings.HasSuffix(lines[i], `\`) || openQuote(c.text)) {
			i++
			c.text += "\n" + lines[i]
			if lines[i] == end {
				break
			}
		}
		all = append(all, c)
	}
	return all
}

// openQuote reports whether a quote is not closed yet.
func openQuote(text string) bool {
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote == 0 && c == '#' && (i == 0 || text[i-1] == ' '):
			return false
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == quote:
			quote = 0
		}
	}
	return quote != 0
}

// compare says what is wrong with what a command printed; "" is nothing.
func (s *pageShell) compare(c shown, out []string, code int) string {
	want, got := withoutBlank(c.output), withoutBlank(out)
	fails := false
	for _, line := range want {
		fails = fails || strings.HasPrefix(line, "holdfast: ")
	}
	switch {
	case c.console && fails != (code != 0), !c.console && code != 0:
		return fmt.Sprintf("exit code %d", code)
	case !c.console || len(want) == 0:
		return ""
	}
	bound := map[string]string{}
	if problem := s.fits(want, got, bound); problem != "" {
		return problem
	}
	for id, seen := range bound {
		s.bound[id] = seen
	}
	return ""
}

// fits compares lines; a line "..." stands for any number of them.
func (s *pageShell) fits(want, got []string, bound map[string]string) string {
	for i, line := range want {
		switch {
		case line == "...":
			problem := ""
			for skip := range len(got) + 1 {
				tried := maps.Clone(bound)
				found := s.fits(want[i+1:], got[skip:], tried)
				if found == "" {
					maps.Copy(bound, tried)
					return ""
				}
				if problem == "" || skip < len(got) && len(want) > i+1 && s.same(want[i+1], got[skip], maps.Clone(bound)) {
					problem = found
				}
			}
			return problem
		case len(got) == 0:
			return "nothing is printed for the line\n" + line
		case !s.same(line, got[0], bound):
			return fmt.Sprintf("the page shows\n%s\nand it is\n%s", line, got[0])
		}
		got = got[1:]
	}
	if len(got) > 0 {
		return "the page does not show\n" + got[0]
	}
	return ""
}

// killed is what the shell says of a job that the page killed.
var killed = regexp.MustCompile(`^bash: line \d+: +\d+ (Killed|Terminated)`)

func withoutBlank(lines []string) (all []string) {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" && !killed.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

const uuidForm = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// differs are the parts of a line that are others in each run: ids, which are the
// same within a page, and times, durations, digests, prices of calls, names of
// workers and how far a run was when its start or fork was printed, which are not.
var differs = regexp.MustCompile(strings.Join([]string{
	`(?P<digest>\bsha256:[0-9a-f]{12,64})`,
	`(?P<id>` + uuidForm + `|\b[a-z]{1,8}-[0-9a-f]{32}\b|\b[0-9a-f]{64}\b)`,
	`(?P<time>\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?Z| UTC|[+-]\d\d:\d\d)?)?)`,
	`(?P<took>\b\d+(\.\d+)? ?(ms|s)\b)`,
	`(?P<amount>\b\d+ tokens\b|\$0\.\d{4,6}\b)`,
	`(?P<key>\b[A-Z2-7]{26}\b)`,
	`(?P<worker>\brunner-[\w.-]+-\d+-[0-9a-f]{6}\b)`,
	`(?P<server>http://(127\.0\.0\.1|localhost):\d+)`,
	`(?P<moment> \((queued|running|waiting|completed)\)$)`,
	`(?P<rest>\.\.\.|…)`,
	`(?P<blank>\s+)`,
}, "|"))

// same reports whether the line got is the line want of the page, and keeps which
// id stands for which.
func (s *pageShell) same(want, got string, bound map[string]string) bool {
	var b strings.Builder
	var ids []string
	b.WriteString("^")
	at := 0
	for _, m := range differs.FindAllStringSubmatchIndex(want, -1) {
		b.WriteString(regexp.QuoteMeta(want[at:m[0]]))
		at = m[1]
		text := want[m[0]:m[1]]
		group := ""
		for i, name := range differs.SubexpNames() {
			if name != "" && m[2*i] >= 0 {
				group = name
				break
			}
		}
		switch group {
		case "id":
			seen, ok := s.bound[text]
			if !ok {
				seen, ok = bound[text]
			}
			if ok {
				b.WriteString(regexp.QuoteMeta(seen))
				continue
			}
			ids = append(ids, text)
			b.WriteString(`([0-9a-z-]+)`)
		case "time":
			b.WriteString(`\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?: ?Z| UTC|[+-]\d\d:\d\d)?)?`)
		case "took":
			b.WriteString(`[\d.]+ ?(?:ms|s|m|h)(?:\d+s)?`)
		case "digest":
			b.WriteString(`sha256:[0-9a-f]+`)
		case "amount":
			b.WriteString(`\$?[\d.]+(?: tokens)?`)
		case "key":
			b.WriteString(`[A-Z2-7]{26}`)
		case "worker":
			b.WriteString(`runner-\S+`)
		case "server":
			b.WriteString(`http://\S+?:\d+`)
		case "moment":
			b.WriteString(` \((?:queued|running|waiting|completed)\)`)
		case "rest":
			b.WriteString(`.*?`)
		case "blank":
			b.WriteString(`\s+`)
		}
	}
	b.WriteString(regexp.QuoteMeta(want[at:]) + `$`)
	m := regexp.MustCompile(b.String()).FindStringSubmatch(got)
	if m == nil {
		return false
	}
	for i, id := range ids {
		bound[id] = m[i+1]
	}
	return true
}

// learn takes the ids of a command's output in their order, whatever else differs.
func (s *pageShell) learn(c shown, out []string) {
	id := regexp.MustCompile(uuidForm)
	seen := id.FindAllString(strings.Join(out, "\n"), -1)
	for i, want := range id.FindAllString(strings.Join(c.output, "\n"), -1) {
		if _, ok := s.bound[want]; !ok && i < len(seen) {
			s.bound[want] = seen[i]
		}
	}
}
