package registry

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// labelled returns an image with annotations, and with labels in its configuration.
func labelled(t *testing.T, platform string, built time.Time, labels, annotations map[string]string) v1.Image {
	t.Helper()
	image := registrytest.Image(t, "x", platform, built)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Config.Labels = labels
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		t.Fatal(err)
	}
	if annotations == nil {
		return image
	}
	return mutate.Annotations(image, annotations).(v1.Image)
}

func indexOf(t *testing.T, annotations map[string]string, images map[string]v1.Image) v1.ImageIndex {
	t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, platform := range []string{"unknown/unknown", "linux/amd64", "linux/arm64"} {
		image, ok := images[platform]
		if !ok {
			continue
		}
		p, err := v1.ParsePlatform(platform)
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: p}})
	}
	if annotations == nil {
		return index
	}
	return mutate.Annotations(index, annotations).(v1.ImageIndex)
}

func TestInspect(t *testing.T) {
	built, later := time.Date(2025, 6, 7, 8, 9, 10, 0, time.UTC), time.Date(2025, 7, 8, 9, 10, 11, 0, time.UTC)
	const head = "0123456789abcdef0123456789abcdef01234567"
	both := map[string]v1.Image{
		"unknown/unknown": labelled(t, "linux/amd64", built, map[string]string{"of": "attestation"}, nil),
		"linux/amd64":     labelled(t, "linux/amd64", built, map[string]string{"of": "amd64", revisionAnnotation: head}, nil),
		"linux/arm64":     labelled(t, "linux/arm64", later, map[string]string{"of": "arm64"}, nil),
	}
	for name, tc := range map[string]struct {
		push     func(*registrytest.Server) string
		platform string
		want     Image
		gets     int // GET requests for manifests, including those of an earlier Resolve
		blobs    int
	}{
		"image": {
			push: func(s *registrytest.Server) string {
				return s.PushImage(t, "acme/web", "1", labelled(t, "linux/amd64", built, map[string]string{revisionAnnotation: head, "a": "b"}, nil))
			},
			want: Image{Platforms: []string{"linux/amd64"}, Created: built, Revision: head, Labels: map[string]string{revisionAnnotation: head, "a": "b"}}, gets: 1, blobs: 1,
		},
		"annotations before labels": {
			push: func(s *registrytest.Server) string {
				return s.PushImage(t, "acme/web", "1", labelled(t, "linux/amd64", built,
					map[string]string{revisionAnnotation: "label", "a": "label", "c": "label"}, map[string]string{revisionAnnotation: head, "a": "annotation", createdAnnotation: "2025-07-08T09:10:11Z"}))
			},
			want: Image{Platforms: []string{"linux/amd64"}, Created: later, Revision: head,
				Labels: map[string]string{revisionAnnotation: head, "a": "annotation", "c": "label", createdAnnotation: "2025-07-08T09:10:11Z"}}, gets: 1, blobs: 1,
		},
		"no labels": {
			push: func(s *registrytest.Server) string {
				return s.PushImage(t, "acme/web", "1", labelled(t, "linux/amd64", time.Unix(0, 0), nil, nil))
			},
			want: Image{Platforms: []string{"linux/amd64"}}, gets: 1, blobs: 1,
		},
		"index, first platform": {
			push: func(s *registrytest.Server) string { return s.PushIndex(t, "acme/web", "1", indexOf(t, nil, both)) },
			want: Image{Platforms: []string{"linux/amd64", "linux/arm64"}, Created: built, Revision: head, Labels: map[string]string{"of": "amd64", revisionAnnotation: head}}, gets: 2, blobs: 1,
		},
		"index, a platform": {
			push:     func(s *registrytest.Server) string { return s.PushIndex(t, "acme/web", "1", indexOf(t, nil, both)) },
			platform: "linux/arm64",
			want:     Image{Platforms: []string{"linux/amd64", "linux/arm64"}, Created: later, Labels: map[string]string{"of": "arm64"}}, gets: 2, blobs: 1,
		},
		"index without the platform": {
			push:     func(s *registrytest.Server) string { return s.PushIndex(t, "acme/web", "1", indexOf(t, nil, both)) },
			platform: "windows/amd64",
			want:     Image{Platforms: []string{"linux/amd64", "linux/arm64"}, Created: built, Revision: head, Labels: map[string]string{"of": "amd64", revisionAnnotation: head}}, gets: 2, blobs: 1,
		},
		"index with annotations": {
			push: func(s *registrytest.Server) string {
				return s.PushIndex(t, "acme/web", "1", indexOf(t, map[string]string{revisionAnnotation: "index", createdAnnotation: "2025-07-08T09:10:11Z"}, both))
			},
			want: Image{Platforms: []string{"linux/amd64", "linux/arm64"}, Created: later, Revision: "index",
				Labels: map[string]string{"of": "amd64", revisionAnnotation: "index", createdAnnotation: "2025-07-08T09:10:11Z"}}, gets: 2, blobs: 1,
		},
		"empty index": {
			push: func(s *registrytest.Server) string {
				return s.PushIndex(t, "acme/web", "1", indexOf(t, map[string]string{"a": "b"}, nil))
			},
			want: Image{Labels: map[string]string{"a": "b"}}, gets: 1,
		},
		"chart": {
			push: func(s *registrytest.Server) string {
				return s.PushImage(t, "acme/web", "1", mutate.ConfigMediaType(labelled(t, "linux/amd64", built, map[string]string{"a": "b"}, map[string]string{"c": "d"}), "application/vnd.cncf.helm.config.v1+json"))
			},
			want: Image{Labels: map[string]string{"c": "d"}}, gets: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			tc.want.Digest = tc.push(server)
			clock := newClock()
			scanner := scannerAt(clock)
			r := Request{Repository: server.Repository("acme/web")}
			for range 3 {
				found, err := scanner.Resolve(t.Context(), r, "1")
				if err != nil {
					t.Fatal(err)
				}
				if found.Labels != nil || found.Revision != "" {
					t.Errorf("Resolve gives labels %v and revision %q, want none", found.Labels, found.Revision)
				}
				got, err := scanner.Inspect(t.Context(), r, found.Digest, tc.platform)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("image (-want +got):\n%s", diff)
				}
				clock.Step(24 * time.Hour)
			}
			for class, n := range map[registrytest.Class]int{registrytest.Get: tc.gets, registrytest.Blob: tc.blobs} {
				if got := server.Requests(class); got != n {
					t.Errorf("%d requests of class %s, want %d", got, class, n)
				}
			}
		})
	}
}

func TestInspectErrors(t *testing.T) {
	missing := "sha256:" + strings.Repeat("0", 64)
	for name, tc := range map[string]struct {
		digest string
		want   Kind
	}{
		"not a digest": {"1.0.0", BadName},
		"nothing":      {"", BadName},
		"missing":      {missing, NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			server.Push(t, "acme/web", "1.0.0")
			if _, err := scannerAt(newClock()).Inspect(t.Context(), Request{Repository: server.Repository("acme/web")}, tc.digest, ""); KindOf(err) != tc.want {
				t.Errorf("Inspect: %v, want %q", err, tc.want)
			}
		})
	}
}

func TestLabelsAreBounded(t *testing.T) {
	many := func(n, size int) map[string]string {
		all := map[string]string{revisionAnnotation: "r"}
		for i := range n {
			all[fmt.Sprintf("%04d", i)] = strings.Repeat("x", size)
		}
		return all
	}
	for name, tc := range map[string]struct {
		in   map[string]string
		want int
	}{
		"few":                 {many(10, 10), 11},
		"many":                {many(10_000, 1), maxLabels},
		"large":               {many(100, 4000), 1 + (maxLabelBytes-len(revisionAnnotation)-1)/4004},
		"larger than allowed": {many(3, 5000), 1},
		"none":                {nil, 0},
		"revision too big":    {map[string]string{revisionAnnotation: strings.Repeat("x", 5000), "a": "b"}, 1},
	} {
		got := labels(tc.in)
		if len(got) != tc.want {
			t.Errorf("%s: %d labels, want %d", name, len(got), tc.want)
		}
		if tc.in[revisionAnnotation] == "r" && got[revisionAnnotation] != "r" {
			t.Errorf("%s: the revision is lost", name)
		}
		for range 5 {
			if again := labels(maps.Clone(tc.in)); !maps.Equal(got, again) {
				t.Errorf("%s: different labels the next time", name)
			}
		}
	}
}

func TestImageCacheIsBounded(t *testing.T) {
	c := imageCache{limit: 32_000}
	image := func(n int) described {
		return described{Image: Image{Labels: map[string]string{"a": strings.Repeat("x", n)}}}
	}
	for i := range 100 {
		c.add(fmt.Sprint(i), image(1000))
		c.get("0") // requested repeatedly
	}
	if c.size > c.limit || c.size < c.limit/2 || len(c.byKey) != c.order.Len() {
		t.Errorf("%d bytes in %d of %d images, want at most %d", c.size, len(c.byKey), c.order.Len(), c.limit)
	}
	for key, want := range map[string]bool{"0": true, "99": true, "50": false} {
		if _, ok := c.get(key); ok != want {
			t.Errorf("image %s is cached: %t, want %t", key, ok, want)
		}
	}
	c.add("huge", image(20_000))
	if _, ok := c.get("huge"); ok {
		t.Error("an image that is too large is kept")
	}
	if _, ok := c.get("0"); !ok {
		t.Error("an image that is too large has evicted another")
	}
	before := c.order.Len()
	for range 3 {
		c.add("same", image(1000))
	}
	if c.order.Len() > before+1 || len(c.byKey) != c.order.Len() {
		t.Errorf("%d images after one more, want at most %d", c.order.Len(), before+1)
	}
}
