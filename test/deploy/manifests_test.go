package deploy

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// objects are what Kustomize builds of one folder, or Helm of a chart, by name. Every object is decoded
// strictly as the API of Kubernetes declares it: a field that is spelled wrong or
// stands in the wrong place fails, which a cluster would drop without a word.
type objects struct {
	deployments  map[string]appsv1.Deployment
	statefulSets map[string]appsv1.StatefulSet
	jobs         map[string]batchv1.Job
	services     map[string]corev1.Service
	budgets      map[string]policyv1.PodDisruptionBudget
	configMaps   map[string]corev1.ConfigMap
	secrets      map[string]corev1.Secret
	accounts     map[string]corev1.ServiceAccount
	namespaces   map[string]corev1.Namespace
	networks     map[string]networkingv1.NetworkPolicy
	ingresses    map[string]networkingv1.Ingress
	scalers      map[string]autoscalingv2.HorizontalPodAutoscaler
	lagScalers   map[string]lagScaler
	routes       map[string]route
	clusters     map[string]cluster
}

// The kinds of others, with every field that the manifests may use.

// lagScaler is KEDA's ScaledObject. Source: keda.sh, version 2.19.
type lagScaler struct {
	typed
	Spec struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int `json:"minReplicaCount"`
		MaxReplicaCount int `json:"maxReplicaCount"`
		CooldownPeriod  int `json:"cooldownPeriod"`
		Advanced        struct {
			ScalingModifiers struct {
				Formula    string `json:"formula"`
				Target     string `json:"target"`
				MetricType string `json:"metricType"`
			} `json:"scalingModifiers"`
		} `json:"advanced"`
		Triggers []struct {
			Type     string `json:"type"`
			Name     string `json:"name"`
			Metadata struct {
				Endpoint     string `json:"natsServerMonitoringEndpoint"`
				Account      string `json:"account"`
				Stream       string `json:"stream"`
				Consumer     string `json:"consumer"`
				LagThreshold string `json:"lagThreshold"`
			} `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// route is HTTPRoute. Source: gateway-api.sigs.k8s.io, version v1.
type route struct {
	typed
	Spec struct {
		ParentRefs []struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"parentRefs"`
		Hostnames []string `json:"hostnames"`
		Rules     []struct {
			Matches []struct {
				Path struct {
					Type  string `json:"type"`
					Value string `json:"value"`
				} `json:"path"`
			} `json:"matches"`
			Timeouts struct {
				Request string `json:"request"`
			} `json:"timeouts"`
			BackendRefs []struct {
				Name string `json:"name"`
				Port int32  `json:"port"`
			} `json:"backendRefs"`
		} `json:"rules"`
	} `json:"spec"`
}

// cluster is CloudNativePG's. Source: cloudnative-pg.io, version 1.26.
type cluster struct {
	typed
	Spec struct {
		Instances  int    `json:"instances"`
		ImageName  string `json:"imageName"`
		PostgreSQL struct {
			Synchronous struct {
				Method         string `json:"method"`
				Number         int    `json:"number"`
				DataDurability string `json:"dataDurability"`
			} `json:"synchronous"`
			Parameters map[string]string `json:"parameters"`
		} `json:"postgresql"`
		Bootstrap struct {
			InitDB struct {
				Database string                      `json:"database"`
				Owner    string                      `json:"owner"`
				Secret   corev1.LocalObjectReference `json:"secret"`
			} `json:"initdb"`
		} `json:"bootstrap"`
		Managed struct {
			Roles []struct {
				Name           string                      `json:"name"`
				Ensure         string                      `json:"ensure"`
				Login          bool                        `json:"login"`
				PasswordSecret corev1.LocalObjectReference `json:"passwordSecret"`
			} `json:"roles"`
		} `json:"managed"`
		Storage    size                        `json:"storage"`
		WALStorage size                        `json:"walStorage"`
		Resources  corev1.ResourceRequirements `json:"resources"`
		Affinity   struct {
			TopologyKey         string `json:"topologyKey"`
			PodAntiAffinityType string `json:"podAntiAffinityType"`
		} `json:"affinity"`
	} `json:"spec"`
}

type size struct {
	Size string `json:"size"`
}

type typed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
}

// manifests is a copy of deploy/k8s with the secrets that people make by themselves.
func manifests(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "k8s")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "deploy/k8s"))); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "overlays/dev/make-secrets.sh")
	if out, err := exec.CommandContext(t.Context(), "sh", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// overlay adds one to a copy of deploy/k8s.
func overlay(t *testing.T, dir, name, kustomization string) string {
	t.Helper()
	folder := filepath.Join(dir, "overlays", name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(kustomization), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// kustomize builds one folder of a copy of deploy/k8s.
func kustomize(t *testing.T, dir string) [][]byte {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// decodeAll sorts objects by kind.
func decodeAll(t *testing.T, all [][]byte) objects {
	t.Helper()
	var o objects
	for _, text := range all {
		var about typed
		if err := yaml.Unmarshal(text, &about); err != nil { // no more than who it is
			t.Fatal(err)
		}
		name := about.Metadata.Name
		switch kind := about.APIVersion + " " + about.Kind; kind {
		case "apps/v1 Deployment":
			decode(t, text, name, &o.deployments)
		case "apps/v1 StatefulSet":
			decode(t, text, name, &o.statefulSets)
		case "batch/v1 Job":
			decode(t, text, name, &o.jobs)
		case "v1 Service":
			decode(t, text, name, &o.services)
		case "policy/v1 PodDisruptionBudget":
			decode(t, text, name, &o.budgets)
		case "v1 ConfigMap":
			decode(t, text, name, &o.configMaps)
		case "v1 Secret":
			decode(t, text, name, &o.secrets)
		case "v1 ServiceAccount":
			decode(t, text, name, &o.accounts)
		case "v1 Namespace":
			decode(t, text, name, &o.namespaces)
		case "networking.k8s.io/v1 NetworkPolicy":
			decode(t, text, name, &o.networks)
		case "networking.k8s.io/v1 Ingress":
			decode(t, text, name, &o.ingresses)
		case "autoscaling/v2 HorizontalPodAutoscaler":
			decode(t, text, name, &o.scalers)
		case "keda.sh/v1alpha1 ScaledObject":
			decode(t, text, name, &o.lagScalers)
		case "gateway.networking.k8s.io/v1 HTTPRoute":
			decode(t, text, name, &o.routes)
		case "postgresql.cnpg.io/v1 Cluster":
			decode(t, text, name, &o.clusters)
		default:
			t.Errorf("%s %s: no test knows this kind; add it", kind, name)
		}
	}
	return o
}

func decode[T any](t *testing.T, text []byte, name string, into *map[string]T) {
	t.Helper()
	var v T
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if *into == nil {
		*into = map[string]T{}
	}
	(*into)[name] = v
}

// TestManifests_ListEveryFile wants each file of each folder named by its
// kustomization, but for the values of other charts.
func TestManifests_ListEveryFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, "deploy/k8s")
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" || name == "kustomization.yaml" || strings.HasSuffix(name, "-values.yaml") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "kustomization.yaml"))
		if err != nil {
			return err
		}
		n++
		if !strings.Contains(string(text), name) {
			t.Errorf("%s is part of nothing", path)
		}
		return nil
	})
	if err != nil || n < 12 {
		t.Errorf("%d files, %v: the check has lost its way", n, err)
	}
}
