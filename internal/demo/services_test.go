package demo

import (
	"slices"
	"strings"
	"testing"
)

func TestServices_ScriptedModel(t *testing.T) {
	t.Parallel()
	s, err := newServices(Config{Binary: "holdfast"}, "postgres://db", t.TempDir(), &world{pricesURL: "http://prices", modelURL: "http://model"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ANTHROPIC_BASE_URL=http://model", "ANTHROPIC_API_KEY=scripted", "HOLDFAST_TOOL_PRICING_URL=http://prices"} {
		if !slices.Contains(s.Env, want) {
			t.Errorf("the services lack %s", want)
		}
	}
}

// TestServices_RealModel: the real provider is reached at its own address.
func TestServices_RealModel(t *testing.T) {
	t.Parallel()
	s, err := newServices(Config{Binary: "holdfast", Model: "claude-x", APIKey: "sk-1"}, "postgres://db", t.TempDir(), &world{modelURL: "http://model"})
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range s.Env {
		if strings.HasPrefix(kv, "ANTHROPIC_BASE_URL=") {
			t.Errorf("the real model is asked at %s", kv)
		}
	}
	if !slices.Contains(s.Env, "ANTHROPIC_API_KEY=sk-1") {
		t.Error("the key of the real model is not passed on")
	}
}
