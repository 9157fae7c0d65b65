package console

import (
	"fmt"
	"testing"
	"time"
)

func bars(spans ...[2]int) (t Timeline) {
	t.From = night
	for i, s := range spans {
		kind := BarModel
		if s[0] < 0 {
			kind, s[0] = BarPerson, -s[0]
		}
		to := night.Add(time.Duration(s[1]) * time.Second)
		t.Lines = append(t.Lines, TimelineLine{Seq: int64(i), Bars: []Bar{{Kind: kind, From: night.Add(time.Duration(s[0]) * time.Second), To: to}}})
		t.To = maxTime(t.To, to)
	}
	return t
}

func TestScaleOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		t     Timeline
		at    []int // seconds
		want  string
		gaps  string
		ticks string
	}{
		"all work":            {bars([2]int{0, 50}, [2]int{50, 100}), []int{0, 25, 100, 500, -5}, "0.0 25.0 100.0 100.0 0.0", "", "02:12:20 02:12:40 02:13:00 02:13:20 02:13:40"},
		"a long wait":         {bars([2]int{0, 100}, [2]int{-100, 20000}), []int{0, 50, 100, 10050, 20000}, "0.0 44.0 88.0 94.0 100.0", "88.0+12.0 5h31m40s", "02:12:20 02:12:40 02:13:00 02:13:20 02:13:40"},
		"a short wait":        {bars([2]int{0, 10}, [2]int{-10, 20}, [2]int{20, 30}), []int{10, 20}, "33.3 66.7", "", "02:12:20 02:12:30 02:12:40"},
		"many long waits":     {bars([2]int{0, 10}, [2]int{-10, 100}, [2]int{100, 110}, [2]int{-110, 200}, [2]int{200, 210}, [2]int{-210, 300}, [2]int{300, 310}, [2]int{-310, 400}, [2]int{400, 410}, [2]int{-410, 500}), []int{10, 100, 410, 500}, "10.4 20.0 90.4 100.0", "10.4+9.6 1m30s 30.4+9.6 1m30s 50.4+9.6 1m30s 70.4+9.6 1m30s 90.4+9.6 1m30s", "02:12:20"},
		"nothing but waiting": {bars([2]int{-0, 1}, [2]int{-1, 86400}), []int{43200}, "44.0", "0.0+12.0 24h", ""},
		"nothing":             {Timeline{From: night, To: night}, []int{0, 1}, "0.0 100.0", "", "02:12:20 02:12:20.2 02:12:20.4 02:12:20.6 02:12:20.8"},
	} {
		if name == "nothing but waiting" {
			tc.t.Lines[0].Bars[0].Kind, tc.want, tc.gaps, tc.ticks = BarPerson, "50.0", "", "06:00:00 12:00:00 18:00:00 00:00:00"
		}
		s := ScaleOf(tc.t)
		got, gaps, ticks := "", "", ""
		for _, at := range tc.at {
			got += fmt.Sprintf("%.1f ", s.X(night.Add(time.Duration(at)*time.Second)))
		}
		for _, g := range s.Gaps {
			gaps += fmt.Sprintf("%.1f+%.1f %s ", g.Left, g.Width, g.Truncated)
		}
		at, _ := s.Ticks()
		for _, at := range at {
			ticks += at.Format("15:04:05.999 ")
		}
		for what, pair := range map[string][2]string{"places": {got, tc.want}, "gaps": {gaps, tc.gaps}, "ticks": {ticks, tc.ticks}} {
			if pair[1] != "" {
				pair[1] += " "
			}
			if pair[0] != pair[1] {
				t.Errorf("%s: %s %q, want %q", name, what, pair[0], pair[1])
			}
		}
	}
}
