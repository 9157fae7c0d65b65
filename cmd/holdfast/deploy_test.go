package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// container is one container of ours in a deployment.
type container struct {
	where string
	args  []string
	env   map[string]string
}

// composeContainers reads the containers of docker-compose.yml that run our
// image, by name, and the commands of their health checks.
func composeContainers(t *testing.T) (all map[string]container, checks map[string][]string) {
	t.Helper()
	const file = "../../docker-compose.yml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  "../..",
		ConfigFiles: []types.ConfigFile{{Filename: file, Content: text}},
		Environment: types.Mapping{},
	})
	if err != nil {
		t.Fatal(err)
	}
	all, checks = map[string]container{}, map[string][]string{}
	for name, s := range project.Services {
		if !strings.HasPrefix(s.Image, "holdfast:") {
			continue
		}
		c := container{where: "docker-compose.yml: " + name, args: s.Command, env: map[string]string{}}
		for key, value := range s.Environment {
			if value != nil {
				c.env[key] = *value
			}
		}
		all[name] = c
		if s.HealthCheck != nil {
			checks[name] = s.HealthCheck.Test
		}
	}
	return all, checks
}

// manifest is what these tests read of a Kubernetes object.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Name  string
					Args  []string
					Env   []struct{ Name, Value string }
					Ports []struct {
						Name          string
						ContainerPort int
					}
				}
			}
		}
	}
}

func manifests(t *testing.T) []manifest {
	t.Helper()
	files, err := filepath.Glob("../../deploy/k8s/base/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []manifest
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var m manifest
			if err := yaml.Unmarshal(doc, &m); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, m)
		}
	}
	return all
}

// kubernetesContainers reads the containers of deploy/k8s/base, with what the
// shared ConfigMap sets.
func kubernetesContainers(t *testing.T) map[string]container {
	t.Helper()
	shared := map[string]string{}
	all := map[string]container{}
	for _, m := range manifests(t) {
		maps.Copy(shared, m.Data)
		for _, k := range m.Spec.Template.Spec.Containers {
			c := container{where: "deploy/k8s/base: " + m.Kind + " " + m.Metadata.Name, args: k.Args, env: map[string]string{}}
			for _, e := range k.Env {
				c.env[e.Name] = e.Value
			}
			all[k.Name] = c
		}
	}
	if len(shared) == 0 {
		t.Fatal("deploy/k8s/base has no ConfigMap")
	}
	for name, c := range all {
		if name == "migrate" {
			continue
		}
		for key, value := range shared {
			if _, own := c.env[key]; !own {
				c.env[key] = value
			}
		}
	}
	return all
}

// TestDeploy_CommandLines parses the arguments of every container with the real
// command line, and every HOLDFAST_ variable as the flag that it stands for.
func TestDeploy_CommandLines(t *testing.T) {
	t.Parallel()
	compose, _ := composeContainers(t)
	for _, c := range slices.Concat(slices.Collect(maps.Values(compose)), slices.Collect(maps.Values(kubernetesContainers(t)))) {
		args := slices.Clone(c.args)
		if len(args) == 0 {
			t.Errorf("%s: no arguments", c.where)
			continue
		}
		command := flagsOf(t, args[0])
		for key, value := range c.env {
			if !strings.HasPrefix(key, "HOLDFAST_") || strings.HasPrefix(key, "HOLDFAST_TOOL_") || key == "HOLDFAST_WEBHOOK_SECRET" {
				continue // read by definitions, not by the command
			}
			flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, "HOLDFAST_"), "_", "-"))
			if command[flag] == nil {
				t.Errorf("%s: %s is no setting of %q", c.where, key, args[0])
				continue
			}
			args = append(args, "--"+flag+"="+value)
		}
		parser, err := newParser(&CLI{}, kong.Exit(func(int) {}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(args); err != nil {
			t.Errorf("%s: holdfast %s: %v", c.where, strings.Join(args, " "), err)
		}
	}
}

// TestDeploy_Processes wants one process for each service, at the ports that the
// command uses by default, in both deployments.
func TestDeploy_Processes(t *testing.T) {
	t.Parallel()
	want := slices.Sorted(slices.Values(slices.Concat(services, []string{"edge", "migrate"})))
	compose, checks := composeContainers(t)
	kubernetes := kubernetesContainers(t)
	for where, all := range map[string]map[string]container{"docker-compose.yml": compose, "deploy/k8s/base": kubernetes} {
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(all))); diff != "" {
			t.Errorf("%s runs other processes (-want +got):\n%s", where, diff)
		}
		for name, c := range all {
			if name == "migrate" {
				continue
			}
			if diff := cmp.Diff([]string{"serve", name}, c.args[:min(2, len(c.args))]); diff != "" {
				t.Errorf("%s begins otherwise (-want +got):\n%s", c.where, diff)
			}
			if got, want := portOf(c, "--health-listen"), ports[name]+10; got != want {
				t.Errorf("%s: health at port %d, want %d", c.where, got, want)
			}
			wantDoor := ports[name]
			if name == "runner" {
				wantDoor = 0 // it has none
			}
			if got := portOf(c, "--listen"); got != wantDoor {
				t.Errorf("%s: doors at port %d, want %d", c.where, got, wantDoor)
			}
			for service, url := range map[string]string{
				"trigger": flagOf(c, "--edge-trigger-url"), "tools": flagOf(c, "--edge-tools-url"),
				"approvals": flagOf(c, "--edge-approvals-url"), "console": flagOf(c, "--edge-console-url"),
			} {
				host := service
				if where != "docker-compose.yml" {
					host = "holdfast-" + service
				}
				if want := "http://" + host + ":" + strconv.Itoa(ports[service]); name == "edge" && url != want {
					t.Errorf("%s: the edge looks for %s at %q, want %q", c.where, service, url, want)
				}
			}
		}
	}
	for name := range compose {
		if name == "migrate" {
			continue
		}
		want := []string{"CMD", "/usr/local/bin/holdfast", "ready", "http://127.0.0.1:" + strconv.Itoa(ports[name]+10)}
		if diff := cmp.Diff(want, checks[name]); diff != "" {
			t.Errorf("docker-compose.yml: %s is checked otherwise (-want +got):\n%s", name, diff)
			continue
		}
		parser, err := newParser(&CLI{}, kong.Exit(func(int) {}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(checks[name][2:]); err != nil {
			t.Errorf("docker-compose.yml: health check of %s: %v", name, err)
		}
	}
	for _, m := range manifests(t) {
		for _, k := range m.Spec.Template.Spec.Containers {
			for _, p := range k.Ports {
				flag := map[string]string{"http": "--listen", "health": "--health-listen"}[p.Name]
				if got := portOf(kubernetes[k.Name], flag); got != p.ContainerPort {
					t.Errorf("deploy/k8s/base: %s declares port %s %d and listens at %d", k.Name, p.Name, p.ContainerPort, got)
				}
			}
		}
	}
}

// flagOf returns the value of a flag written as --flag=value.
func flagOf(c container, flag string) string {
	for _, arg := range c.args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			return value
		}
	}
	return ""
}

func portOf(c container, flag string) int {
	address := flagOf(c, flag)
	port, err := strconv.Atoi(address[strings.LastIndex(address, ":")+1:])
	if err != nil {
		return 0
	}
	return port
}
