package pg_test

import (
	"errors"
	"testing"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// What CleanJSON accepts, json stores and every reader can read; what it
// refuses is refused by json itself or by a reader. Postgres is the judge.
func TestCleanJSON_AgreesWithPostgres(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tests := map[string]struct {
		raw    string
		clean  bool
		stored bool // the json type takes it
	}{
		"plain":                            {`{"a": [1, 2.50, null, "x"]}`, true, true},
		"digits beyond a float":            {`12345678901234567890.000`, true, true},
		"escapes":                          {`"\n\t\"\\ \u00e4"`, true, true},
		"an escaped backslash before u":    {`"\\u0000"`, true, true},
		"a surrogate pair":                 {`"\ud83d\ude00"`, true, true},
		"a pair in upper case":             {`"\uD83D\uDE00"`, true, true},
		"NUL escape":                       {`"a\u0000b"`, false, true},
		"NUL escape in a key":              {`{"\u0000": 1}`, false, true},
		"NUL after an escaped backslash":   {`"\\\u0000"`, false, true},
		"high surrogate alone":             {`"\ud800"`, false, true},
		"high surrogate before text":       {`"\ud800x"`, false, true},
		"high surrogate before an escape":  {`"\ud800\n\n\n\n"`, false, true},
		"two high surrogates":              {`"\ud800\ud800"`, false, true},
		"low surrogate alone":              {`"\udc00"`, false, true},
		"raw NUL":                          {"\"a\x00\"", false, false},
		"invalid UTF-8":                    {"\"\xff\"", false, false},
		"half a rune":                      {"\"\xc3\"", false, false},
		"a surrogate as UTF-8":             {"\"\xed\xa0\x80\"", false, false},
		"two values":                       {`1 2`, false, false},
		"nothing":                          {``, false, false},
		"not JSON":                         {`{a: 1}`, false, false},
		"high surrogate at the very end":   {`["\ud83d"]`, false, true},
		"a pair whose low half is no half": {`"\ud83d\u0041"`, false, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := pg.CleanJSON([]byte(tc.raw))
			if (err == nil) != tc.clean || err != nil && !errors.Is(err, pg.ErrUnclean) {
				t.Errorf("CleanJSON = %v, want clean %v", err, tc.clean)
			}
			_, serr := db.Pool.Exec(t.Context(), "SELECT $1::text::json", tc.raw)
			if (serr == nil) != tc.stored {
				t.Errorf("json takes it: %v, want %v", serr, tc.stored)
			}
			_, rerr := db.Pool.Exec(t.Context(), "SELECT $1::text::json::jsonb, json_build_array($1::text::json) ->> 0, ARRAY(SELECT json_array_elements_text(CASE json_typeof($1::text::json) WHEN 'array' THEN $1::text::json ELSE json_build_array($1::text::json) END))", tc.raw)
			if (rerr == nil) != tc.clean {
				t.Errorf("readers take it: %v, want %v", rerr, tc.clean)
			}
		})
	}
}

func TestCleanText(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{"": true, "grüße 😀\n": true, "a\x00": false, "\xff": false} {
		if err := pg.CleanText(s); (err == nil) != want {
			t.Errorf("CleanText(%q) = %v", s, err)
		}
	}
}
