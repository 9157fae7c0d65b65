package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

const chart = root + "/deploy/helm/holdfast"

// values are those of the chart with layers over them, as Helm merges them: maps
// key by key, everything else as a whole.
func values(t *testing.T, layers ...string) map[string]any {
	t.Helper()
	var all map[string]any
	readYAML(t, filepath.Join(chart, "values.yaml"), &all)
	for _, text := range layers {
		var over map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &over); err != nil {
			t.Fatal(err)
		}
		merge(all, over)
	}
	return all
}

func merge(into, over map[string]any) {
	for key, v := range over {
		below, isMap := v.(map[string]any)
		if there, ok := into[key].(map[string]any); ok && isMap {
			merge(there, below)
			continue
		}
		into[key] = v
	}
}

func prodValues(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "values-prod.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// render is the chart as Helm renders it, with the few functions of Helm that its
// templates use. That Helm's own engine says the same is a test of test/kube.
func render(t *testing.T, release string, values map[string]any) map[string]string {
	t.Helper()
	files, err := renderErr(release, values)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func renderErr(release string, values map[string]any) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	var about struct{ Name, Version, AppVersion string }
	if err := yaml.Unmarshal(text, &about); err != nil {
		return nil, err
	}
	all := template.New("chart").Option("missingkey=zero")
	toYAML := func(v any) (string, error) {
		text, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	all.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := all.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"toYaml": toYAML,
		"nindent": func(n int, text string) string {
			return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
		},
		"quote": func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"default": func(otherwise, v any) any {
			if truth, _ := template.IsTrue(v); !truth {
				return otherwise
			}
			return v
		},
		"required": func(complaint string, v any) (any, error) {
			if v == nil || v == "" {
				return nil, errors.New(complaint)
			}
			return v, nil
		},
		"list": func(v ...any) []any { return v },
		"dict": func(pairs ...any) map[string]any {
			d := map[string]any{}
			for pair := range slices.Chunk(pairs, 2) {
				d[pair[0].(string)] = pair[1]
			}
			return d
		},
		"sha256sum": func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
	})
	if _, err := all.ParseGlob(filepath.Join(chart, "templates", "*")); err != nil {
		return nil, err
	}
	data := map[string]any{
		"Values":  values,
		"Chart":   map[string]any{"Name": about.Name, "Version": about.Version, "AppVersion": about.AppVersion},
		"Release": map[string]any{"Name": release, "Namespace": "holdfast", "Service": "Helm"},
	}
	files := map[string]string{}
	for _, t := range all.Templates() {
		name := t.Name()
		if ext := filepath.Ext(name); ext != ".yaml" && ext != ".txt" {
			continue
		}
		var b strings.Builder
		if err := t.Execute(&b, data); err != nil {
			return nil, err
		}
		files[name] = b.String()
	}
	return files, nil
}

// documents are the objects of rendered files.
func documents(files map[string]string) [][]byte {
	var all [][]byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for doc := range strings.SplitSeq("\n"+files[name], "\n---\n") {
			var v any
			if yaml.Unmarshal([]byte(doc), &v) == nil && v == nil {
				continue // nothing but comments
			}
			all = append(all, []byte(doc))
		}
	}
	return all
}

// bare is an object without what only Helm has: its labels and annotations, in
// selectors, too.
func bare(t *testing.T, text []byte) (name string, object map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, below := range v {
				strip(below)
			}
		case map[string]any:
			for key, below := range v {
				switch {
				case strings.HasPrefix(key, "helm.sh/"), key == "holdfast.run/config", key == "app.kubernetes.io/instance",
					key == "app.kubernetes.io/version", key == "app.kubernetes.io/managed-by":
					delete(v, key)
					continue
				}
				strip(below)
				if m, ok := below.(map[string]any); ok && len(m) == 0 && (key == "labels" || key == "annotations") {
					delete(v, key)
				}
			}
		}
	}
	strip(object)
	return fmt.Sprint(object["kind"], " ", object["metadata"].(map[string]any)["name"]), object
}

// The chart makes what Kustomize makes, object by object. The namespace is Helm's
// caller's to make.
func TestChart_MakesWhatKustomizeMakes(t *testing.T) {
	t.Parallel()
	const gateway = "\nroute: {enabled: true}\n"
	dir := manifests(t)
	for way, layers := range map[string][]string{"base": nil, "prod": {prodValues(t)}, "prod with the gateway": {prodValues(t), gateway}} {
		want, got := map[string]map[string]any{}, map[string]map[string]any{}
		folder := filepath.Join(dir, folders[strings.TrimSuffix(way, " with the gateway")])
		if strings.HasSuffix(way, "gateway") {
			folder = overlay(t, dir, "prod-gateway", "resources: [../prod]\ncomponents: [../../components/gateway]\nnamespace: holdfast\n")
		}
		for _, doc := range kustomize(t, folder) {
			name, object := bare(t, doc)
			want[name] = object
		}
		delete(want, "Namespace holdfast")
		for _, doc := range documents(render(t, "holdfast", values(t, layers...))) {
			name, object := bare(t, doc)
			if got[name] != nil {
				t.Errorf("%s: %s twice", way, name)
			}
			got[name] = object
		}
		if len(want) < 24 {
			t.Errorf("%s: %d objects: the check has lost its way", way, len(want))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-kustomize +chart):\n%s", way, diff)
		}
	}
}

// Two releases in one namespace do not touch: no object of one has the name of
// another's, and no selector of one takes pods of the other.
func TestChart_TwoReleases(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, release := range []string{"holdfast", "second"} {
		for _, doc := range documents(render(t, release, values(t, prodValues(t)))) {
			name, _ := bare(t, doc)
			if names[name] {
				t.Errorf("both have a %s", name)
			}
			names[name] = true
			for line := range strings.SplitSeq(string(doc), "\n") {
				if strings.Contains(line, "app.kubernetes.io/name: holdfast,") && !strings.Contains(line, "app.kubernetes.io/instance: "+release) {
					t.Errorf("%s of %s selects by %s", name, release, strings.TrimSpace(line))
				}
			}
		}
	}
}

// What values may set arrives where it belongs.
func TestChart_Values(t *testing.T) {
	t.Parallel()
	const all = `
image: {repository: registry.example/holdfast, tag: "1.2", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
host: agents.example.com
secrets: {database: db, migrate: mig, oidc: sso}
config: {HOLDFAST_OIDC_ISSUER: "https://login.example.com", HOLDFAST_LOG_LEVEL: debug}
services:
  tools: {replicas: 5, env: {HOLDFAST_EGRESS_ALLOW: 10.20.0.0/16}, envSecret: keys, resources: {limits: {cpu: "3", memory: 1Gi}}}
  edge: {env: {HOLDFAST_LOG_LEVEL: warn}}
networkPolicy: {data: [{ports: [{port: 4222}], to: [{podSelector: {matchLabels: {app: nats}}}]}]}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/holdfast"}}
podAnnotations: {team: agents}
nodeSelector: {disk: ssd}
tolerations: [{key: agents, operator: Exists}]
affinity: {podAntiAffinity: {}}
priorityClassName: high
`
	v := values(t, all)
	if err := schema(t).Validate(v); err != nil {
		t.Fatal(err)
	}
	o := decodeAll(t, documents(render(t, "holdfast", v)))
	for name, d := range o.deployments {
		pod := d.Spec.Template
		if c := pod.Spec.Containers[0]; c.Image != "registry.example/holdfast:1.2" || c.ImagePullPolicy != "Always" {
			t.Errorf("%s: image %s, %s", name, c.Image, c.ImagePullPolicy)
		}
		if pod.Annotations["team"] != "agents" || pod.Spec.NodeSelector["disk"] != "ssd" || len(pod.Spec.Tolerations) != 1 ||
			pod.Spec.Affinity == nil || pod.Spec.PriorityClassName != "high" || pod.Spec.ImagePullSecrets[0].Name != "registry" {
			t.Errorf("%s: %+v", name, pod)
		}
	}
	tools := o.deployments["holdfast-tools"]
	c := tools.Spec.Template.Spec.Containers[0]
	if *tools.Spec.Replicas != 5 || c.EnvFrom[1].SecretRef.Name != "keys" || c.Env[len(c.Env)-1].Value != "10.20.0.0/16" || c.Resources.Limits.Cpu().String() != "3" {
		t.Errorf("tools: %+v", tools.Spec)
	}
	if v := tools.Spec.Template.Spec.Volumes[1]; v.Secret.SecretName != "db" {
		t.Errorf("tools read the database's URL from %+v", v)
	}
	if e := o.deployments["holdfast-edge"].Spec.Template.Spec.Containers[0].Env; len(e) != 1 || e[0].Value != "warn" {
		t.Errorf("edge has the environment %+v", e)
	}
	if e := o.deployments["holdfast-console"].Spec.Template.Spec.Containers[0].Env; e[len(e)-1].Name != "HOLDFAST_OIDC_CLIENT_SECRET_FILE" {
		t.Errorf("console has the environment %+v", e)
	}
	if got := o.configMaps["holdfast"].Data; got["HOLDFAST_CONSOLE_PUBLIC_URL"] != "https://agents.example.com" || got["HOLDFAST_LOG_LEVEL"] != "debug" {
		t.Errorf("settings %v", got)
	}
	if got := o.networks["holdfast-data"].Spec.Egress; len(got) != 1 || len(got[0].To) != 1 {
		t.Errorf("the way to the data is %+v", got)
	}
	if len(o.accounts["holdfast"].Annotations) != 1 || o.jobs["holdfast-migrate"].Spec.Template.Spec.Volumes[0].Secret.SecretName != "mig" {
		t.Error("the account or the Job is as before")
	}
	for _, doc := range []string{"ingress: {enabled: true}", "route: {enabled: true}"} {
		if _, err := renderErr("holdfast", values(t, doc)); err == nil || !strings.Contains(err.Error(), "needs the value host") {
			t.Errorf("%s without a host: %v", doc, err)
		}
	}
	off := decodeAll(t, documents(render(t, "holdfast", values(t, "networkPolicy: {enabled: false}"))))
	if len(off.networks) != 0 || len(off.deployments) != 6 {
		t.Errorf("%d policies, %d deployments", len(off.networks), len(off.deployments))
	}
}

// Pods are made anew when a setting that they share changes, and then only.
func TestChart_NewSettingsNewPods(t *testing.T) {
	t.Parallel()
	of := func(layers ...string) string {
		o := decodeAll(t, documents(render(t, "holdfast", values(t, layers...))))
		return o.deployments["holdfast-runner"].Spec.Template.Annotations["holdfast.run/config"]
	}
	if of() != of() || of() == of("config: {HOLDFAST_LOG_LEVEL: debug}") || of() == of("nats: {replicas: 3}") || of() != of("services: {tools: {replicas: 3}}") {
		t.Error("the annotation does not follow the settings")
	}
}

func TestChart_Notes(t *testing.T) {
	t.Parallel()
	notes := render(t, "holdfast", values(t, prodValues(t)))["NOTES.txt"]
	for _, want := range []string{"https://holdfast.example.com", "service/holdfast-edge 8787", `'{{index .data "admin-token" | base64decode}}'`} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %s:\n%s", want, notes)
		}
	}
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	s, err := c.Compile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The schema names each value, takes the defaults, and refuses a name that it does
// not know, at every depth.
func TestChart_Schema(t *testing.T) {
	t.Parallel()
	s := schema(t)
	for name, layers := range map[string][]string{"values.yaml": nil, "values-prod.yaml": {prodValues(t)}} {
		if err := s.Validate(values(t, layers...)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	free := map[string]bool{"config": true, "ingress.annotations": true, "serviceAccount.annotations": true, "podAnnotations": true, "nodeSelector": true, "affinity": true}
	places := 0
	var walk func(path []string, v map[string]any)
	walk = func(path []string, v map[string]any) {
		at := strings.Join(path, ".")
		if free[at] || len(path) > 0 && path[len(path)-1] == "env" {
			return
		}
		places++
		bad := values(t)
		in := bad
		for _, p := range path {
			in = in[p].(map[string]any)
		}
		in["misspelled"] = "x"
		if s.Validate(bad) == nil {
			t.Errorf("%s.misspelled is accepted", at)
		}
		for key, below := range v {
			if m, ok := below.(map[string]any); ok {
				walk(append(slices.Clone(path), key), m)
			}
		}
	}
	walk(nil, values(t))
	if places < 25 {
		t.Errorf("%d places: the check has lost its way", places)
	}
	for _, text := range []string{
		"nats: {url: 'nats://user:password@nats:4222'}", "nats: {replicas: 0}", "services: {tools: {replicas: '2'}}", "config: {HOLDFAST_NATS_URL: nats://x}",
		"config: {LOG_LEVEL: debug}", "config: {HOLDFAST_LOG_LEVEL: 3}", "image: {pullPolicy: Sometimes}", "secrets: {database: ''}", "host: 'https://x'", "autoscaling: {cpu: 0}",
	} {
		if s.Validate(values(t, text)) == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	var declared struct{ Properties map[string]any }
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &declared); err != nil {
		t.Fatal(err)
	}
	delete(declared.Properties, "global") // where the chart is part of another
	if diff := cmp.Diff(slices.Sorted(maps.Keys(values(t))), slices.Sorted(maps.Keys(declared.Properties))); diff != "" {
		t.Errorf("the schema names other values (-values.yaml +schema):\n%s", diff)
	}
}

// Each value is used by a template, and says what it is in a comment of its own or
// of what it is part of.
func TestChart_ValuesAreUsedAndExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	explained, section := false, false
	for line := range bytes.Lines(text) {
		trimmed := strings.TrimSpace(string(line))
		top := trimmed != "" && line[0] != ' '
		switch {
		case trimmed == "":
			explained = false
		case strings.HasPrefix(trimmed, "#"):
			explained = true
		case top:
			section = explained
			fallthrough
		default:
			if strings.HasPrefix(string(line), "  ") && !strings.HasPrefix(string(line), "   ") && !explained && !section {
				t.Errorf("no word about %s", trimmed)
			}
		}
	}
	before := render(t, "holdfast", values(t, prodValues(t), "route: {enabled: true}"))
	changed := 0
	for _, over := range []string{
		"image: {repository: x}", "image: {tag: x}", "image: {pullPolicy: Always}", "imagePullSecrets: [{name: x}]", "host: x.example", "nats: {url: 'nats://x'}", "nats: {replicas: 5}", "nats: {users: false}",
		"secrets: {database: x}", "secrets: {nats: x}", "secrets: {migrate: x}", "secrets: {oidc: x}", "config: {HOLDFAST_X: x}", "terminationGracePeriodSeconds: 99", "resources: {limits: {cpu: '9'}}",
		"migrate: {backoffLimit: 9}", "migrate: {ttlSecondsAfterFinished: 9}", "migrate: {resources: {limits: {cpu: '9'}}}", "autoscaling: {enabled: false}", "autoscaling: {keda: false}",
		"autoscaling: {cpu: 9}", "autoscaling: {cooldownSeconds: 9}", "autoscaling: {waiting: 9}", "autoscaling: {natsMonitoring: 'x:1'}", "autoscaling: {natsAccount: x}",
		"ingress: {enabled: false}", "ingress: {className: x}", "ingress: {tlsSecret: x}", "ingress: {annotations: {x: x}}", "route: {enabled: false}", "route: {gateway: {name: x}}",
		"route: {gateway: {namespace: x}}", "networkPolicy: {enabled: false}", "networkPolicy: {data: [{}]}", "serviceAccount: {annotations: {x: x}}", "podAnnotations: {x: x}",
		"nodeSelector: {x: x}", "tolerations: [{}]", "affinity: {nodeAffinity: {}}", "priorityClassName: x",
	} {
		changed++
		if reflect.DeepEqual(before, render(t, "holdfast", values(t, prodValues(t), "route: {enabled: true}", over))) {
			t.Errorf("%s changes nothing", over)
		}
	}
	leaves := 0
	var count func(v any)
	count = func(v any) {
		m, ok := v.(map[string]any)
		if !ok || len(m) == 0 {
			leaves++
			return
		}
		for _, below := range m {
			count(below)
		}
	}
	v := values(t)
	for _, key := range []string{"services", "config", "resources"} {
		delete(v, key)
	}
	v["ingress"].(map[string]any)["annotations"] = nil
	v["migrate"].(map[string]any)["resources"] = nil
	count(v)
	if leaves+2 != changed { // and resources, config
		t.Errorf("%d values are tried, there are %d", changed, leaves+2)
	}
}
