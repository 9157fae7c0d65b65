package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// The types below hold every field that the base may use. Decoding is strict:
// a field that is spelled wrong or stands in the wrong place fails, which a
// cluster would drop without a word.

type meta struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
}

type typed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   meta   `json:"metadata"`
}

type labels struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type deployment struct {
	typed
	Spec struct {
		Replicas int    `json:"replicas"`
		Selector labels `json:"selector"`
		Strategy struct {
			RollingUpdate struct {
				MaxUnavailable int `json:"maxUnavailable"`
				MaxSurge       int `json:"maxSurge"`
			} `json:"rollingUpdate"`
		} `json:"strategy"`
		Template podTemplate `json:"template"`
	} `json:"spec"`
}

type job struct {
	typed
	Spec struct {
		BackoffLimit            int         `json:"backoffLimit"`
		TTLSecondsAfterFinished int         `json:"ttlSecondsAfterFinished"`
		Template                podTemplate `json:"template"`
	} `json:"spec"`
}

type podTemplate struct {
	Metadata meta    `json:"metadata"`
	Spec     podSpec `json:"spec"`
}

type podSpec struct {
	RestartPolicy                 string `json:"restartPolicy"`
	ServiceAccountName            string `json:"serviceAccountName"`
	AutomountServiceAccountToken  *bool  `json:"automountServiceAccountToken"`
	TerminationGracePeriodSeconds int    `json:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsNonRoot   bool `json:"runAsNonRoot"`
		RunAsUser      int  `json:"runAsUser"`
		RunAsGroup     int  `json:"runAsGroup"`
		FSGroup        int  `json:"fsGroup"`
		SeccompProfile struct {
			Type string `json:"type"`
		} `json:"seccompProfile"`
	} `json:"securityContext"`
	TopologySpreadConstraints []struct {
		MaxSkew           int    `json:"maxSkew"`
		TopologyKey       string `json:"topologyKey"`
		WhenUnsatisfiable string `json:"whenUnsatisfiable"`
		LabelSelector     labels `json:"labelSelector"`
	} `json:"topologySpreadConstraints"`
	Containers []kubeContainer `json:"containers"`
	Volumes    []struct {
		Name   string `json:"name"`
		Secret *struct {
			SecretName  string `json:"secretName"`
			DefaultMode int    `json:"defaultMode"`
			Optional    bool   `json:"optional"`
		} `json:"secret"`
		EmptyDir *struct {
			SizeLimit string `json:"sizeLimit"`
		} `json:"emptyDir"`
	} `json:"volumes"`
}

type kubeContainer struct {
	Name  string   `json:"name"`
	Image string   `json:"image"`
	Args  []string `json:"args"`
	Ports []struct {
		Name          string `json:"name"`
		ContainerPort int    `json:"containerPort"`
	} `json:"ports"`
	EnvFrom []struct {
		ConfigMapRef *reference `json:"configMapRef"`
		SecretRef    *reference `json:"secretRef"`
	} `json:"envFrom"`
	Env []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	StartupProbe   *probe `json:"startupProbe"`
	ReadinessProbe *probe `json:"readinessProbe"`
	LivenessProbe  *probe `json:"livenessProbe"`
	Resources      struct {
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	} `json:"resources"`
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `json:"readOnlyRootFilesystem"`
		Capabilities             struct {
			Drop []string `json:"drop"`
		} `json:"capabilities"`
	} `json:"securityContext"`
	VolumeMounts []struct {
		Name      string `json:"name"`
		MountPath string `json:"mountPath"`
		ReadOnly  bool   `json:"readOnly"`
	} `json:"volumeMounts"`
}

type reference struct {
	Name     string `json:"name"`
	Optional bool   `json:"optional"`
}

type probe struct {
	HTTPGet struct {
		Path string `json:"path"`
		Port string `json:"port"`
	} `json:"httpGet"`
	PeriodSeconds    int `json:"periodSeconds"`
	TimeoutSeconds   int `json:"timeoutSeconds"`
	FailureThreshold int `json:"failureThreshold"`
}

type service struct {
	typed
	Spec struct {
		Selector map[string]string `json:"selector"`
		Ports    []struct {
			Name       string `json:"name"`
			Port       int    `json:"port"`
			TargetPort string `json:"targetPort"`
		} `json:"ports"`
	} `json:"spec"`
}

type budget struct {
	typed
	Spec struct {
		MaxUnavailable int    `json:"maxUnavailable"`
		Selector       labels `json:"selector"`
	} `json:"spec"`
}

type configMap struct {
	typed
	Data map[string]string `json:"data"`
}

type account struct {
	typed
	AutomountServiceAccountToken *bool `json:"automountServiceAccountToken"`
}

// base is what kustomize builds from deploy/k8s/base.
type base struct {
	deployments map[string]deployment
	jobs        map[string]job
	services    map[string]service
	budgets     map[string]budget
	configMaps  map[string]configMap
	accounts    map[string]account
}

func build(t *testing.T) base {
	t.Helper()
	dir, err := filepath.Abs("../../deploy/k8s/base")
	if err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	b := base{map[string]deployment{}, map[string]job{}, map[string]service{}, map[string]budget{}, map[string]configMap{}, map[string]account{}}
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		name := r.GetName()
		switch kind := r.GetApiVersion() + " " + r.GetKind(); kind {
		case "apps/v1 Deployment":
			b.deployments[name] = decode[deployment](t, text)
		case "batch/v1 Job":
			b.jobs[name] = decode[job](t, text)
		case "v1 Service":
			b.services[name] = decode[service](t, text)
		case "policy/v1 PodDisruptionBudget":
			b.budgets[name] = decode[budget](t, text)
		case "v1 ConfigMap":
			b.configMaps[name] = decode[configMap](t, text)
		case "v1 ServiceAccount":
			b.accounts[name] = decode[account](t, text)
		case "v1 Namespace":
			ns := decode[typed](t, text)
			if ns.Metadata.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
				t.Error("the namespace does not enforce the restricted profile")
			}
		default:
			t.Errorf("%s %s: no test knows this kind; add it", kind, name)
		}
	}
	return b
}

func decode[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

func TestKubernetes_ListsEveryFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/k8s/base/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../deploy/k8s/base/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := filepath.Base(f); name != "kustomization.yaml" && !strings.Contains(string(text), "- "+name+"\n") {
			t.Errorf("%s is not part of the base", name)
		}
	}
}

func TestKubernetes_Deployments(t *testing.T) {
	t.Parallel()
	b := build(t)
	if len(b.deployments) != 6 {
		t.Errorf("%d deployments, want the five services and edge", len(b.deployments))
	}
	shared := b.configMaps["holdfast"].Data
	for name, d := range b.deployments {
		pod := d.Spec.Template
		if len(pod.Spec.Containers) != 1 {
			t.Fatalf("%s has %d containers", name, len(pod.Spec.Containers))
		}
		c := pod.Spec.Containers[0]
		confined(t, name, pod.Spec)
		if d.Spec.Replicas < 2 {
			t.Errorf("%s: %d replicas; one is none while it moves", name, d.Spec.Replicas)
		}
		for what, p := range map[string]*probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
			want := "/live"
			if what == "readiness" {
				want = "/ready"
			}
			if p == nil || p.HTTPGet.Path != want || p.HTTPGet.Port != "health" || p.PeriodSeconds == 0 {
				t.Errorf("%s: %s probe is %+v, want %s at the health port", name, what, p, want)
			}
		}
		delay, err := time.ParseDuration(shared["HOLDFAST_SHUTDOWN_DELAY"])
		if err != nil {
			t.Fatal(err)
		}
		grace, err := time.ParseDuration(shared["HOLDFAST_SHUTDOWN_GRACE"])
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(pod.Spec.TerminationGracePeriodSeconds) * time.Second; got <= delay+grace {
			t.Errorf("%s is killed after %s, before its own %s are over", name, got, delay+grace)
		}
		if len(c.EnvFrom) == 0 || c.EnvFrom[0].ConfigMapRef == nil || c.EnvFrom[0].ConfigMapRef.Name != "holdfast" {
			t.Errorf("%s does not read the shared settings", name)
		}
		for _, from := range c.EnvFrom[1:] {
			if from.SecretRef == nil || from.SecretRef.Name != name {
				t.Errorf("%s reads the environment of %+v; a secret belongs to one service", name, from)
			}
		}
		if diff := cmp.Diff(d.Spec.Selector.MatchLabels, pod.Metadata.Labels); diff != "" {
			t.Errorf("%s does not select its own pods (-selector +labels):\n%s", name, diff)
		}
		pdb, ok := b.budgets[name]
		if diff := cmp.Diff(pod.Metadata.Labels, pdb.Spec.Selector.MatchLabels); !ok || diff != "" || pdb.Spec.MaxUnavailable != 1 {
			t.Errorf("%s is not protected while nodes are drained: %+v", name, pdb.Spec)
		}
		for _, v := range pod.Spec.Volumes {
			if v.Secret != nil && v.Secret.SecretName != "holdfast-database" && !(name == "holdfast-console" && v.Secret.SecretName == "holdfast-oidc") {
				t.Errorf("%s mounts the secret %s", name, v.Secret.SecretName)
			}
		}
		if len(b.accounts[pod.Spec.ServiceAccountName].Metadata.Name) == 0 {
			t.Errorf("%s names the service account %q, which is not there", name, pod.Spec.ServiceAccountName)
		}
	}
}

// confined checks what every pod must have, whatever it runs.
func confined(t *testing.T, name string, pod podSpec) {
	t.Helper()
	if s := pod.SecurityContext; !s.RunAsNonRoot || s.RunAsUser == 0 || s.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("%s: the pod's security context is %+v", name, s)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s gets a token of the cluster and needs none", name)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range pod.Containers {
		if s := c.SecurityContext; s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%s: the container's security context is %+v", name, s)
		}
		for what, got := range map[string]map[string]string{"requests": c.Resources.Requests, "limits": c.Resources.Limits} {
			if got["cpu"] == "" || got["memory"] == "" {
				t.Errorf("%s: %s are %v, want cpu and memory", name, what, got)
			}
		}
		if !strings.HasPrefix(c.Image, "ghcr.io/holdfast-run/holdfast:") {
			t.Errorf("%s: kustomize did not set the image: %s", name, c.Image)
		}
		var mounts []string
		for _, m := range c.VolumeMounts {
			mounts = append(mounts, m.MountPath)
			if !volumes[m.Name] {
				t.Errorf("%s mounts the volume %s, which is not there", name, m.Name)
			}
		}
		paths := slices.Clone(c.Args)
		for _, e := range c.Env {
			paths = append(paths, e.Value)
		}
		for _, p := range paths {
			_, path, ok := strings.Cut(p, "/run/secrets/")
			if ok && !slices.Contains(mounts, "/run/secrets/"+filepath.Dir(path)) {
				t.Errorf("%s reads %s, which nothing mounts", name, p)
			}
		}
	}
}

func TestKubernetes_Migrate(t *testing.T) {
	t.Parallel()
	b := build(t)
	j, ok := b.jobs["holdfast-migrate"]
	if !ok || len(b.jobs) != 1 {
		t.Fatalf("jobs: %v, want holdfast-migrate", b.jobs)
	}
	confined(t, "holdfast-migrate", j.Spec.Template.Spec)
	if j.Spec.Template.Spec.RestartPolicy != "OnFailure" {
		t.Errorf("restart policy %s", j.Spec.Template.Spec.RestartPolicy)
	}
}

func TestKubernetes_Services(t *testing.T) {
	t.Parallel()
	b := build(t)
	for name, s := range b.services {
		d, ok := b.deployments[name]
		if !ok {
			t.Errorf("the service %s has no deployment", name)
			continue
		}
		if diff := cmp.Diff(d.Spec.Template.Metadata.Labels, s.Spec.Selector); diff != "" {
			t.Errorf("the service %s selects other pods (-labels +selector):\n%s", name, diff)
		}
		for _, p := range s.Spec.Ports {
			found := false
			for _, c := range d.Spec.Template.Spec.Containers[0].Ports {
				found = found || c.Name == p.TargetPort && c.ContainerPort == p.Port
			}
			if !found || p.TargetPort == "health" {
				t.Errorf("the service %s leads to port %s %d, which the pod does not offer", name, p.TargetPort, p.Port)
			}
		}
	}
	for name := range b.deployments {
		if _, ok := b.services[name]; !ok && name != "holdfast-runner" {
			t.Errorf("%s has doors and no service", name)
		}
	}
}
