package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	approvals "github.com/holdfast-run/holdfast/services/approvals/httpapi"
	console "github.com/holdfast-run/holdfast/services/console/httpapi"
	tools "github.com/holdfast-run/holdfast/services/tools/httpapi"
	trigger "github.com/holdfast-run/holdfast/services/trigger/httpapi"
)

// doorServices lists the services that have doors, in the order of the
// description.
var doorServices = []string{"trigger", "tools", "approvals", "console"}

// emptyDoors returns each service's door without the service behind it: its
// routes and its description. "serve edge" and tests read them.
func emptyDoors(v authn.Verifier) map[string]*door.Door {
	return doorsWith(func(name string) door.Config {
		return door.Config{Title: name, Version: buildVersion(), Verifier: v}
	})
}

// doorsWith is emptyDoors with doors of other configurations.
func doorsWith(config func(service string) door.Config) map[string]*door.Door {
	doors := map[string]*door.Door{}
	for _, name := range doorServices {
		doors[name] = door.New(config(name))
	}
	trigger.Register(doors["trigger"], nil)
	tools.Register(doors["tools"], nil)
	approvals.Register(doors["approvals"], nil)
	console.Register(doors["console"], nil)
	return doors
}

const openAPIPath = "/openapi.json"

// join puts services on one origin. handler serves a service's requests: its
// door here, a proxy in the edge. Two services with one path are a mistake in
// the code and panic. What no service knows is answered by the console's door
// when it is there.
func join(doors map[string]*door.Door, handler func(service string) http.Handler) (http.Handler, error) {
	mux := http.NewServeMux()
	owners := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(doors)) {
		h := handler(name)
		for _, r := range doors[name].Routes() {
			if r.Pattern == openAPIPath {
				continue
			}
			switch owners[r.Pattern] {
			case name: // another method of the same path
			case "":
				owners[r.Pattern] = name
				mux.Handle(r.Pattern, h) // of any method: the owner answers 405
			default:
				panic(fmt.Sprintf("%s and %s both have the path %s", owners[r.Pattern], name, r.Pattern))
			}
		}
	}
	if owners["/"] == "" && len(doors) > 0 {
		fallback := "console"
		if doors[fallback] == nil {
			fallback = slices.Sorted(maps.Keys(doors))[0]
		}
		mux.Handle("/", handler(fallback))
	}
	document, err := describe(doors)
	if err != nil {
		return nil, err
	}
	mux.HandleFunc("GET "+openAPIPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(document) // the reader has gone: nobody to tell
	})
	return mux, nil
}

// joinDoors puts the doors of this process on one origin.
func joinDoors(list []*door.Door) (http.Handler, error) {
	doors := map[string]*door.Door{}
	for _, d := range list {
		doors[d.OpenAPI().Info.Title] = d
	}
	return join(doors, func(name string) http.Handler { return doors[name].Handler() })
}

// describe joins the OpenAPI documents of doors. Schemas of two services may
// have one name, so each carries its service's.
func describe(doors map[string]*door.Door) ([]byte, error) {
	type document struct {
		OpenAPI    string                                `json:"openapi"`
		Info       map[string]any                        `json:"info"`
		Components map[string]map[string]json.RawMessage `json:"components"`
		Paths      map[string]json.RawMessage            `json:"paths"`
	}
	all := document{
		Info:       map[string]any{"title": "Holdfast", "version": buildVersion()},
		Components: map[string]map[string]json.RawMessage{},
		Paths:      map[string]json.RawMessage{},
	}
	for _, name := range slices.Sorted(maps.Keys(doors)) {
		text, err := json.Marshal(doors[name].OpenAPI())
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		const ref = `"#/components/schemas/`
		var one document
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), ref, ref+name+".")), &one); err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		all.OpenAPI = one.OpenAPI
		maps.Copy(all.Paths, one.Paths)
		for section, members := range one.Components {
			if all.Components[section] == nil {
				all.Components[section] = map[string]json.RawMessage{}
			}
			for key, value := range members {
				if section == "schemas" {
					key = name + "." + key
				}
				all.Components[section][key] = value
			}
		}
	}
	return json.Marshal(all)
}

// devPrincipal is who works with a development server from its own machine.
var devPrincipal = authn.Principal{Name: "dev", Namespace: "default", Role: authn.Admin}
