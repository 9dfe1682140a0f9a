package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestReportOfControlCharacters checks that a report is readable if objects and findings contain control characters.
func TestReportOfControlCharacters(t *testing.T) {
	t.Parallel()
	var odd strings.Builder
	for r := rune(0); r <= 0xa0; r++ {
		if unicode.IsControl(r) {
			odd.WriteRune(r)
		}
	}
	odd.WriteString("\u2028\ufeff\ufffe\uffff é 😀")
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Status.Conditions = []metav1.Condition{{Type: "Stalled", Status: "True", Reason: "X", Message: odd.String()}}
	name := filepath.Join(t.TempDir(), "report.tar.gz")
	if err := writeReport(name, &Result{Findings: []Finding{{Level: Problem, Check: "Microservice", Text: odd.String()}}}, []client.Object{ms}); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, name)
	var got v1alpha1.Microservice
	if err := yaml.Unmarshal([]byte(files["hlnr-report/objects/shop/microservice/shop.yaml"]), &got); err != nil {
		t.Fatal(err)
	}
	if got.Status.Conditions[0].Message != odd.String() {
		t.Errorf("message %q, want %q", got.Status.Conditions[0].Message, odd.String())
	}
	var result Result
	if err := json.Unmarshal([]byte(files["hlnr-report/doctor.json"]), &result); err != nil {
		t.Fatal(err)
	}
	if result.Findings[0].Text != odd.String() {
		t.Errorf("finding %q, want %q", result.Findings[0].Text, odd.String())
	}
}

// TestReportThatFails checks that an incomplete archive is removed.
func TestReportThatFails(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "report.tar.gz")
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a\x00b"}} // This name is invalid in an archive.
	if err := writeReport(name, &Result{}, []client.Object{ms}); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the archive still exists: %v", err)
	}
}

// TestSecretsOfMicroservice checks that the result contains each Secret for hooks and metrics once.
func TestSecretsOfMicroservice(t *testing.T) {
	t.Parallel()
	var ms v1alpha1.Microservice
	if names := secretsOf(&ms); len(names) != 0 {
		t.Errorf("Secrets of a Microservice without a canary strategy: %q", names)
	}
	if err := yaml.UnmarshalStrict([]byte(`
spec:
  updateStrategy:
    canary:
      hooks: [{name: a, secretRef: {name: hook}, caSecretRef: {name: hook-ca}}, {name: b}]
      analysis:
        provider: {prometheus: {address: "http://a", secretRef: {name: prometheus}, caSecretRef: {name: ca}}}
        metrics:
        - {name: a, successRate: {}, thresholdRange: {min: 99}}
        - {name: b, web: {url: "https://a", value: body, secretRef: {name: web}, caSecretRef: {name: ca}, headers: [{name: A, value: a}, {name: B, secretKeyRef: {name: header, key: a}}]}, thresholdRange: {min: 99}}
        - {name: c, web: {url: "https://a", value: body, aws: {region: a, secretRef: {name: cloudwatch}}}, thresholdRange: {min: 99}}
        - {name: d, web: {url: "https://a", value: body, google: {secretRef: {name: google}}}, thresholdRange: {min: 99}}
`), &ms); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(secretsOf(&ms), " "), "ca cloudwatch google header hook hook-ca prometheus web"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
