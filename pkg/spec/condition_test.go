package spec

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCondition_Eval(t *testing.T) {
	t.Parallel()
	const args = `{"n":9007199254740993,"big":18446744073709551615,"neg":-9223372036854775808,"price":19.99,"spelled":1.0e1,"tenth":0.1,"list":[1,2,3],"s":"shop-07","none":null,"huge":1e30}`
	tests := map[string]bool{
		"args.n == 9007199254740993":                     true,
		"args.n == 9007199254740992":                     false,
		"args.n > 9007199254740992":                      true,
		"args.n < 9007199254740994":                      true,
		"args.big == 18446744073709551615u":              true,
		"args.big > 9223372036854775807":                 true,
		"args.neg == -9223372036854775808":               true,
		"args.neg < 0":                                   true,
		"args.price == 19.99":                            true,
		"args.price > 19":                                true,
		"args.price < 20":                                true,
		"args.spelled == 10":                             true,
		"args.tenth < 0.2":                               true,
		"args.huge > 100":                                true,
		"args.list.exists(x, x == 2)":                    true,
		"args.list.all(x, x < 3)":                        false,
		"size(args.list) == 3":                           true,
		`args.s.matches("^shop-0[1-9]$")`:                true,
		`args.s in ["shop-07", "shop-08"]`:               true,
		`has(args.missing)`:                              false,
		`has(args.missing) && args.missing > 1`:          false,
		`args.none == null`:                              true,
		`run.agent == "competitor-check"`:                true,
		`run.labels.customer == "42"`:                    true,
		`run.tool_calls >= 3 && args.price * 2.0 < 40.0`: true,
	}
	run, err := RunFacts{Agent: "competitor-check", Labels: map[string]string{"customer": "42"}, ToolCalls: 3}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range tests {
		c, err := NewCondition(text, "args", "run")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := c.Eval(values("args", args, "run", string(run))); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestCondition_ErrorsAreNoAnswer(t *testing.T) {
	t.Parallel()
	long := "[" + strings.TrimSuffix(strings.Repeat("1,", 2000), ",") + "]"
	tests := map[string]struct{ text, args string }{
		"a missing member":              {"args.amount > 100", `{}`},
		"text compared with a number":   {"args.amount > 100", `{"amount":"1000"}`},
		"null compared with a number":   {"args.amount > 100", `{"amount":null}`},
		"int and double mixed":          {"args.amount * 1.5 > 100.0", `{"amount":10}`},
		"more digits than a double has": {"args.amount > 100", `{"amount":100.00000000000000001}`},
		"a whole number beyond 64 bits": {"args.amount > 100", `{"amount":18446744073709551617}`},
		"one such number anywhere":      {"args.shop == 'x'", `{"shop":"x","other":[{"a":0.12345678901234567890123}]}`},
		"not a boolean":                 {"args.amount", `{"amount":1}`},
		"too costly":                    {"args.l.all(a, args.l.all(b, args.l.all(c, a + b + c > 0)))", `{"l":` + long + `}`},
		"duplicate keys":                {"args.amount < 100", `{"amount":1,"amount":1000}`},
		"invalid JSON":                  {"args.amount < 100", `{"amount":1`},
		"overflow":                      {"args.amount + args.amount > 0", `{"amount":9223372036854775807}`},
		"division by zero":              {"1 / args.amount > 0", `{"amount":0}`},
		"no value for the variable":     {"run.agent == 'x'", `{}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := NewCondition(tc.text, "args", "run")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.Eval(values("args", tc.args)); err == nil {
				t.Errorf("%s with %.100s is %v, want an error", tc.text, tc.args, got)
			}
			tool := &Tool{Approval: Approval{Mode: ApprovalWhen, When: c}, InDoubt: InDoubt{Default: PolicyRetry, Cases: []DoubtCase{{When: c, Policy: PolicyFail}}}}
			if g := tool.Gate(Asking{}, GateCase{Args: []byte(tc.args)}); !g.Ask || g.Policy != "when "+tc.text {
				t.Errorf("the gate is %+v; want to ask", g)
			}
			if p := tool.DoubtPolicy([]byte(tc.args)); p != PolicyAsk {
				t.Errorf("DoubtPolicy gave %s, want ask", p)
			}
		})
	}
	var none *Condition
	if _, err := none.Eval(nil); err == nil {
		t.Error("a nil condition gave an answer")
	}
	if _, err := (&Condition{text: "true"}).Eval(nil); err == nil {
		t.Error("a condition that was not compiled gave an answer")
	}
}

// TestCondition_NumbersCompareAsDecimals: for any two numbers of the data that
// CEL accepts, < and == say what exact decimals say.
func TestCondition_NumbersCompareAsDecimals(t *testing.T) {
	t.Parallel()
	less, err := NewCondition("args.a < args.b", "args")
	if err != nil {
		t.Fatal(err)
	}
	equal, err := NewCondition("args.a == args.b", "args")
	if err != nil {
		t.Fatal(err)
	}
	near := rapid.SampledFrom([]string{"9007199254740992", "9007199254740993", "9007199254740992.5", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "1e19", "1e18", "0.1", "0.3", "100", "1e2", "100.0", "1e-7", "-0"})
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(near, rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,6})?`))
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		in := values("args", `{"a":`+a+`,"b":`+b+`}`)
		got, err := less.Eval(in)
		if err != nil {
			return // refused, so a person is asked
		}
		order := decimal(a).Cmp(decimal(b))
		if got != (order < 0) {
			t.Fatalf("%s < %s is %v", a, b, got)
		}
		if same, err := equal.Eval(in); err != nil || same != (order == 0) {
			t.Fatalf("%s == %s is %v, %v", a, b, same, err)
		}
	})
}

func TestNewCondition_Refuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                                "is required",
		"args.a >":                        "CEL:",
		"input.a":                         "there is no \"input\" here",
		"1 + 1":                           "gives int",
		"'x'":                             "gives string",
		"args.a.foo(1)":                   "CEL:",
		strings.Repeat("(", 400) + "true": "CEL:",
		strings.Repeat("true && ", 2000) + "true": "at most 4096",
	}
	for text, want := range tests {
		if _, err := NewCondition(text, "args"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want one with %q", text, err, want)
		}
	}
}
