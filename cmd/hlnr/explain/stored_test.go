package explain

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// cluster starts an API server with objects, and returns a kubeconfig for it. The keys of objects are API paths. For
// Heighliner's objects in the namespace shop, a key is only the resource and the name, such as microservices/web.
func cluster(t *testing.T, objects map[string]any) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name := strings.TrimPrefix(r.URL.Path, "/apis/hlnr.io/v1alpha1/namespaces/shop/")
		if o, found := objects[name]; found {
			if err := json.NewEncoder(w).Encode(o); err != nil {
				t.Error(err)
			}
			return
		}
		if kind := map[string]string{"imagepolicies": "ImagePolicyList", "microservices": "MicroserviceList"}[name]; kind != "" {
			fmt.Fprintf(w, `{"kind":%q,"apiVersion":"hlnr.io/v1alpha1","metadata":{},"items":[{"metadata":{"name":"shop"}}]}`, kind)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":%q}`, fmt.Sprintf("objects %q not found", path.Base(name)))
	}))
	t.Cleanup(server.Close)
	return file(t, fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", server.URL))
}

// TestExplainOfTheCluster checks that explain prints the status of the policy if the argument is the name of an ImagePolicy or
// of a Microservice.
func TestExplainOfTheCluster(t *testing.T) {
	t.Parallel()
	policy := &v1alpha1.ImagePolicy{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ImagePolicy"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "images"}}
	policy.Spec.Image = "registry.example.com/shop"
	policy.Status.Releases = []v1alpha1.OfferedRelease{
		{SemVer: v1alpha1.SemVer{Name: "1.x", Version: "1.1.0"}, Group: "1-x", Images: []v1alpha1.ReleaseImage{{Image: "registry.example.com:5000/shop:v1.1.0@sha256:00"}}},
		{SemVer: v1alpha1.SemVer{Name: "1.x", Version: "1.0.0"}, Group: "1-x"},
	}
	policy.Status.Candidates = []v1alpha1.RefusedCandidate{{Version: "1.2.0-rc.1", Verdict: "Level", Reason: "prereleases are off"}, {Version: "latest", Verdict: "Parse", Reason: "not a version"}}
	policy.Status.Rejected = []v1alpha1.RejectedCount{{Verdict: "Level", Count: 1}, {Verdict: "Parse", Count: 40}}
	ms := &v1alpha1.Microservice{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Microservice"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	ms.Spec.ImagePolicyRef.Name = "images"
	lost := ms.DeepCopy()
	lost.Name, lost.Spec.ImagePolicyRef.Name = "lost", "nothing"
	empty := policy.DeepCopy()
	empty.Name, empty.Status.Releases = "empty", nil
	github := policy.DeepCopy()
	github.Name, github.Spec.Source = "github", &v1alpha1.ImageSource{GitHub: &v1alpha1.GitHubSource{Tags: &v1alpha1.GitHubTags{}}}
	namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	kubeconfig := cluster(t, map[string]any{"/api/v1/namespaces/shop": namespace, "imagepolicies/images": policy, "imagepolicies/empty": empty, "imagepolicies/github": github, "microservices/web": ms, "microservices/lost": lost})
	table := `TAG          VERSION      GROUP   VERDICT   REASON
1.2.0-rc.1   1.2.0-rc.1   -       Level     prereleases are off
v1.1.0       1.1.0        1.x     Offered   newest of its group
1.0.0        1.0.0        1.x     Offered
latest       -            -       Parse     not a version

43 tags: 2 offered in 1 group, latest 1.1.0; 41 rejected (1 Level, 40 Parse); 39 of them are not shown: use --scan to read the registry from this machine and list all tags
note: this is the status of ImagePolicy shop/images, as the manager wrote it; --scan reads the registry from this machine
`
	for name, c := range map[string]struct {
		args []string
		code cli.Code
		want string
	}{
		"policy":                      {[]string{"images"}, cli.ExitYes, table},
		"policy by resource":          {[]string{"imagepolicy/images"}, cli.ExitYes, table},
		"service":                     {[]string{"web"}, cli.ExitYes, table},
		"service by resource":         {[]string{"msvc/web", "--all"}, cli.ExitYes, table},
		"fewer rejected":              {[]string{"web", "--refused", "1"}, cli.ExitYes, "40 of them are not shown: use --all to show 1 more"},
		"fewer rejected, from GitHub": {[]string{"github", "--refused", "1"}, cli.ExitYes, "40 of them are not shown: use --all to show 1 more"},
		"from GitHub":                 {[]string{"github"}, cli.ExitYes, "39 of them are not shown: the status lists at most 20 rejected tags"},
		"JSON":                        {[]string{"web", "-o", "json"}, cli.ExitYes, `"latest": "1.1.0"`},
		"with tags":                   {[]string{"web", "--tags", file(t, "2.0.0\n")}, cli.ExitYes, "1 tag: 1 offered in 1 group, latest 2.0.0"},
		"nothing offered":             {[]string{"empty"}, cli.ExitNo, "none offered"},
		"neither":                     {[]string{"shpo"}, cli.ExitUsage, `there is no ImagePolicy or Microservice with the name "shpo" in namespace shop; did you mean "shop"?`},
		"missing policy":              {[]string{"lost"}, cli.ExitUsage, "there is no ImagePolicy nothing, to which spec.imagePolicyRef of Microservice lost refers"},
		"another kind":                {[]string{"pod/x"}, cli.ExitUsage, `"pod/x" is neither an ImagePolicy nor a Microservice`},
		"manifest too":                {[]string{"web", "-f", "-"}, cli.ExitUsage, "--file and --name are for a manifest"},
		"scan of the manifest":        {[]string{"-f", "-", "--scan"}, cli.ExitUsage, "--scan is for an ImagePolicy in the cluster"},
		"two names":                   {[]string{"web", "images"}, cli.ExitUsage, `unexpected argument "images"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := hlnr(t, "", append([]string{"explain", "--kubeconfig", kubeconfig, "-n", "shop"}, c.args...)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit code %d, want %d and\n%s\ngot\n%s%s", code, c.code, c.want, stdout, stderr)
			}
		})
	}
}
