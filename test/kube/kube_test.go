package kube

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // each registers its kinds
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	autoscalingvalidation "k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	root  = "../.."
	chart = root + "/deploy/helm/holdfast"
)

// validate is what an API server asks of an object that is made.
func validate(o runtime.Object) field.ErrorList {
	pod := corevalidation.PodValidationOptions{}
	switch o := o.(type) {
	case *apps.Deployment:
		return appsvalidation.ValidateDeployment(o, pod)
	case *apps.StatefulSet:
		return appsvalidation.ValidateStatefulSet(o, appsvalidation.StatefulSetValidationOptions{}, pod)
	case *batch.Job:
		// The server gives a Job the selector of its own pods.
		o = o.DeepCopy()
		const own = "batch.kubernetes.io/controller-uid"
		o.UID = "6f1c6d3e-8d8e-4f0f-8f5c-0d3c7a1f2b11"
		o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{own: string(o.UID)}}
		for _, label := range []string{own, "controller-uid"} {
			o.Spec.Template.Labels[label] = string(o.UID)
		}
		for _, label := range []string{"batch.kubernetes.io/job-name", "job-name"} {
			o.Spec.Template.Labels[label] = o.Name
		}
		return batchvalidation.ValidateJobCreate(o, batchvalidation.JobValidationOptions{PodValidationOptions: pod, RequirePrefixedLabels: true})
	case *core.Service:
		return corevalidation.ValidateServiceCreate(o)
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(o)
	case *core.Secret:
		return corevalidation.ValidateSecret(o)
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(o)
	case *core.Namespace:
		return corevalidation.ValidateNamespace(o)
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{})
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(o, networkingvalidation.NetworkPolicyValidationOptions{})
	case *networking.Ingress:
		return networkingvalidation.ValidateIngressCreate(o)
	case *autoscaling.HorizontalPodAutoscaler:
		return autoscalingvalidation.ValidateHorizontalPodAutoscaler(o, autoscalingvalidation.HorizontalPodAutoscalerSpecValidationOptions{MinReplicasLowerBound: 1})
	}
	return field.ErrorList{field.InternalError(nil, fmt.Errorf("nothing validates %T; add it", o))}
}

// others are the kinds that Kubernetes does not have by itself.
var others = []string{"ScaledObject", "HTTPRoute", "Cluster"}

// pods are those that an object makes.
func pods(o runtime.Object) *core.PodTemplateSpec {
	switch o := o.(type) {
	case *apps.Deployment:
		return &o.Spec.Template
	case *apps.StatefulSet:
		return &o.Spec.Template
	case *batch.Job:
		return &o.Spec.Template
	}
	return nil
}

// onlyHelm is what Helm's objects have that Kustomize's have not.
var onlyHelm = regexp.MustCompile(`(?m)^ *(helm\.sh/[\w-]+|holdfast\.run/config|app\.kubernetes\.io/(instance|version|managed-by)): .*\n|, app\.kubernetes\.io/instance: \w+`)

// decode reads objects as an API server does: strictly, with its defaults.
func decode(t *testing.T, docs [][]byte) map[string]any {
	t.Helper()
	decoder := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDecoder()
	all := map[string]any{}
	for _, doc := range docs {
		var about struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal(doc, &about); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		name := about.Kind + " " + about.Metadata.Name
		if all[name] != nil {
			t.Errorf("%s twice", name)
		}
		if slices.Contains(others, about.Kind) {
			var o map[string]any
			if err := yaml.Unmarshal(doc, &o); err != nil {
				t.Fatal(err)
			}
			delete(o["metadata"].(map[string]any), "labels")
			all[name] = o
			continue
		}
		o, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, doc)
		}
		all[name] = o
	}
	return all
}

// check validates objects, and their pods by the restricted profile.
func check(t *testing.T, all map[string]any) (complaints []string) {
	t.Helper()
	profile, err := podsecurity.NewEvaluator(podsecurity.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range all {
		o, ok := v.(runtime.Object)
		if !ok {
			continue
		}
		if a, err := meta.Accessor(o); err != nil {
			t.Fatal(err)
		} else if _, cluster := o.(*core.Namespace); !cluster && a.GetNamespace() == "" {
			complaints = append(complaints, name+": no namespace")
		}
		for _, err := range validate(o) {
			complaints = append(complaints, name+": "+err.Error())
		}
		template := pods(o)
		if template == nil {
			continue
		}
		var spec corev1.PodSpec
		if err := legacyscheme.Scheme.Convert(&template.Spec, &spec, nil); err != nil {
			t.Fatal(err)
		}
		for _, r := range profile.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &template.ObjectMeta, &spec) {
			if !r.Allowed {
				complaints = append(complaints, name+": "+r.ForbiddenReason+": "+r.ForbiddenDetail)
			}
		}
		for _, c := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
			_, isJob := o.(*batch.Job)
			switch {
			case c.Resources.Limits.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero():
				complaints = append(complaints, name+": no limits")
			case !isJob && (c.ReadinessProbe == nil || c.LivenessProbe == nil || c.StartupProbe == nil):
				complaints = append(complaints, name+": no probes")
			case c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem:
				complaints = append(complaints, name+": its root can be written to")
			case spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken:
				complaints = append(complaints, name+": a token of the cluster")
			}
		}
	}
	return complaints
}

// kustomize builds deploy/k8s/<folder>, with the secrets that people make.
func kustomize(t *testing.T, folder, kustomization string) [][]byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "k8s")
	if err := os.CopyFS(dir, os.DirFS(root+"/deploy/k8s")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "overlays/dev/make-secrets.sh")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	at := filepath.Join(dir, folder)
	if kustomization != "" {
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "kustomization.yaml"), []byte(kustomization), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), at)
	if err != nil {
		t.Fatal(err)
	}
	var docs [][]byte
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, text)
	}
	return docs
}

// helm renders the chart with values over its own, as Helm does.
func helm(t *testing.T, values map[string]any) (docs [][]byte, notes string, err error) {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "holdfast", Namespace: "holdfast", Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return nil, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) == ".txt" {
			notes = files[name]
			continue
		}
		for doc := range strings.SplitSeq("\n"+files[name], "\n---\n") {
			var v any
			if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			if v != nil {
				docs = append(docs, []byte(doc))
			}
		}
	}
	return docs, notes, nil
}

func prodValues(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(chart + "/values-prod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

const gateway = "resources: [../prod]\ncomponents: [../../components/gateway]\nnamespace: holdfast\n"

func TestKustomize_IsAccepted(t *testing.T) {
	for folder, kustomization := range map[string]string{"base": "", "overlays/dev": "", "overlays/prod": "", "overlays/gateway": gateway} {
		all := decode(t, kustomize(t, folder, kustomization))
		if len(all) < 25 {
			t.Errorf("%s: %d objects", folder, len(all))
		}
		for _, complaint := range check(t, all) {
			t.Errorf("%s: %s", folder, complaint)
		}
	}
}

// Helm's own engine, with its check of the schema, makes what Kustomize makes.
func TestChart_ByHelmItself(t *testing.T) {
	withGateway := prodValues(t)
	withGateway["route"] = map[string]any{"enabled": true}
	for way, tc := range map[string]struct {
		values                map[string]any
		folder, kustomization string
	}{
		"base":    {map[string]any{}, "base", ""},
		"prod":    {prodValues(t), "overlays/prod", ""},
		"gateway": {withGateway, "overlays/gateway", gateway},
	} {
		docs, notes, err := helm(t, tc.values)
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		if !strings.Contains(notes, "service/holdfast-edge 8787") {
			t.Errorf("%s: notes:\n%s", way, notes)
		}
		for _, complaint := range check(t, decode(t, docs)) {
			t.Errorf("%s: %s", way, complaint)
		}
		for i, doc := range docs {
			docs[i] = onlyHelm.ReplaceAll(doc, nil)
		}
		want, got := decode(t, kustomize(t, tc.folder, tc.kustomization)), decode(t, docs)
		delete(want, "Namespace holdfast")
		if a, b := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)); !slices.Equal(a, b) {
			t.Errorf("%s: Kustomize makes %v, the chart %v", way, a, b)
		}
		for name := range want {
			// Empty and missing are the same here.
			if !equality.Semantic.DeepEqual(want[name], got[name]) {
				a, _ := yaml.Marshal(want[name])
				b, _ := yaml.Marshal(got[name])
				t.Errorf("%s: %s by Kustomize:\n%s\nby the chart:\n%s", way, name, a, b)
			}
		}
	}
}

func TestChart_HelmRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"misspelled: 1":                     "misspelled",
		"services: {tools: {replica: 3}}":   "replica",
		"services: {tools: {replicas: x}}":  "got string, want integer",
		"config: {HOLDFAST_NATS_URL: nats}": "config",
		"ingress: {enabled: true}":          "needs the value host",
	} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, _, err := helm(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The checker is checked: what an API server or the profile refuses is refused here.
func TestCheck(t *testing.T) {
	whole, _, err := helm(t, prodValues(t))
	if err != nil {
		t.Fatal(err)
	}
	base, _, err := helm(t, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		docs           [][]byte
		old, new, want string
	}{
		"more at least than at most": {whole, "maxReplicas: 12", "maxReplicas: 1", "maxReplicas"},
		"pods that nobody selects":   {base, "labels:\n        app.kubernetes.io/name: holdfast", "labels:\n        app.kubernetes.io/name: other", "selector"},
		"no image":                   {base, "image: ghcr.io/holdfast-run/holdfast:dev", `image: ""`, "image"},
		"a port too high":            {base, "containerPort: 8702", "containerPort: 87020", "containerPort"},
		"requests over limits":       {base, "memory: 128Mi", "memory: 1Gi", "requests"},
		"root":                       {base, "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot != true"},
		"no seccomp":                 {base, "type: RuntimeDefault", "type: Unconfined", "seccomp"},
		"a root that is written to":  {base, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "written"},
		"a range that is none":       {base, "cidr: 0.0.0.0/0", "cidr: 0.0.0.0/99", "cidr"},
	} {
		docs := slices.Clone(tc.docs)
		hit := false
		for i, doc := range docs {
			docs[i] = bytes.ReplaceAll(doc, []byte(tc.old), []byte(tc.new))
			hit = hit || !bytes.Equal(doc, docs[i])
		}
		if !hit {
			t.Errorf("%s: nothing has %q", name, tc.old)
		}
		if complaints := check(t, decode(t, docs)); !strings.Contains(strings.Join(complaints, "\n"), tc.want) {
			t.Errorf("%s: %v, want %q", name, complaints, tc.want)
		}
	}
}
