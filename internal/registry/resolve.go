package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/heighliner/heighliner/internal/version"
)

const opResolve = "resolve image"

// digestAt is the digest of a tag at a point in time.
type digestAt struct {
	digest string
	time   time.Time
}

func (s *Scanner) resolve(ctx context.Context, r Request, tag string) (Image, error) {
	t, err := s.target(opResolve, r)
	if err != nil {
		return Image{}, err
	}
	if !version.IsTag(tag) {
		return Image{}, badName(opResolve, r.Repository+":"+clip(tag), "not a valid tag", "use letters, digits, _ . and -, at most 128 characters")
	}
	return share(ctx, &s.flights, "resolve "+t.key+" "+tag, t.timeout, func(ctx context.Context) (Image, error) {
		ref := t.repo.Tag(tag)
		image, err := s.image(ctx, t, ref, r.MaxAge)
		if err != nil {
			return Image{}, t.fail(opResolve, ref.Name(), err)
		}
		return image, nil
	})
}

// image returns the image of a tag. It requests the digest unless a fresh digest is cached, and the metadata unless the metadata for the digest
// is cached.
func (s *Scanner) image(ctx context.Context, t target, ref name.Tag, maxAge time.Duration) (Image, error) {
	key := t.key + " " + ref.TagStr()
	cached, ok := s.digests.Get(key)
	at, _ := cached.(digestAt)
	now := s.clock.Now()
	if !ok {
		found, err := s.first(ctx, t, ref)
		if err != nil {
			return Image{}, err
		}
		s.digests.Add(key, digestAt{found.Digest, now})
		return found.named(now), nil
	}
	if s.clock.Since(at.time) >= maxAge {
		digest, err := t.head(ctx, ref)
		if err != nil {
			return Image{}, err
		}
		at = digestAt{digest, now}
		s.digests.Add(key, at)
	}
	found, err := s.behind(ctx, t, at.digest)
	if err != nil {
		return Image{}, err
	}
	return found.named(at.time), nil
}

// named returns the image as Resolve returns it: without the metadata that only Inspect returns, and with the time at which the tag was read.
func (d described) named(at time.Time) Image {
	image := d.Image
	image.Labels, image.Revision, image.Time = nil, "", at
	return image
}

// first reads a tag that is not cached. It sends one GET for both the digest and the manifest.
func (s *Scanner) first(ctx context.Context, t target, ref name.Tag) (described, error) {
	ctx, puller, err := t.puller(ctx, pageSize)
	if err != nil {
		return described{}, err
	}
	desc, err := puller.Get(ctx, ref)
	if err != nil {
		return described{}, err
	}
	digest := desc.Digest.String()
	if known, ok := s.images.get(t.key + " " + digest); ok {
		return known, nil
	}
	d, err := describe(desc)
	if err != nil {
		return described{}, err
	}
	return s.complete(ctx, t, digest, d)
}

// head returns the digest of a manifest. It uses HEAD, or GET if the response to HEAD is incomplete or HEAD is not allowed.
func (t target) head(ctx context.Context, ref name.Reference) (string, error) {
	ctx, puller, err := t.puller(ctx, pageSize)
	if err != nil {
		return "", err
	}
	desc, err := puller.Head(ctx, ref)
	if err == nil {
		return desc.Digest.String(), nil
	}
	if classify(opResolve, ref.Name(), t, err).Kind != Malformed {
		return "", err
	}
	full, err := puller.Get(ctx, ref)
	if err != nil {
		return "", err
	}
	return full.Digest.String(), nil
}

// behind returns the metadata of the image or index with a digest, from the cache if possible, because the metadata never changes. Otherwise, it
// sends one GET for the manifest and, for an image, a second GET for the configuration. For an index, it also reads up to maxUnnamed images
// for which the index does not specify a platform.
func (s *Scanner) behind(ctx context.Context, t target, digest string) (described, error) {
	if known, ok := s.images.get(t.key + " " + digest); ok {
		return known, nil
	}
	d, err := t.describe(ctx, digest)
	if err != nil {
		return described{}, err
	}
	return s.complete(ctx, t, digest, d)
}

// complete adds the platforms of the images for which the index does not specify a platform, and caches the result.
func (s *Scanner) complete(ctx context.Context, t target, digest string, d described) (described, error) {
	d.Digest, d.Revision = digest, d.Labels[revisionAnnotation]
	for _, inner := range d.unnamed {
		image, err := t.describe(ctx, inner)
		if err != nil {
			if kind := classify(opResolve, inner, t, err).Kind; kind != NotFound && kind != Malformed { // An image that is missing or malformed has no platform.
				return described{}, err
			}
			continue
		}
		for _, p := range image.Platforms {
			if len(d.images) < maxPlatforms {
				d.images = append(d.images, platformImage{p, inner})
			}
		}
	}
	if len(d.unnamed) > 0 {
		d.Platforms, d.unnamed = platforms(d.images), nil
	}
	s.images.add(t.key+" "+digest, d)
	return d, nil
}

// describe reads the manifest of a digest and, for an image, the configuration.
func (t target) describe(ctx context.Context, digest string) (described, error) {
	ctx, puller, err := t.puller(ctx, pageSize)
	if err != nil {
		return described{}, err
	}
	desc, err := puller.Get(ctx, t.repo.Digest(digest))
	if err != nil {
		return described{}, err
	}
	return describe(desc)
}

// These are the prefix of the annotations of the OCI image specification, and the annotations for the build time of an image and for the revision of
// its source.
const (
	ociAnnotations     = "org.opencontainers.image."
	createdAnnotation  = ociAnnotations + "created"
	revisionAnnotation = ociAnnotations + "revision"
)

// described contains the metadata of the image or index with a digest.
type described struct {
	Image
	images []platformImage // images of an index
	// unnamed contains the digests of the images for which the index does not specify a platform.
	unnamed []string
}

// maxUnnamed limits how many images of an index are read to determine their platforms.
const maxUnnamed = 8

// platformImage is an image in an index.
type platformImage struct{ platform, digest string }

func describe(desc *remote.Descriptor) (described, error) {
	switch {
	case desc.MediaType.IsIndex():
		index, err := v1.ParseIndexManifest(bytes.NewReader(desc.Manifest))
		if err != nil {
			return described{}, errManifest
		}
		d := described{images: platformImages(index), unnamed: unnamed(index)}
		d.Platforms = platforms(d.images)
		d.Created = annotatedTime(index.Annotations)
		d.Labels = labels(index.Annotations)
		return d, nil
	case desc.MediaType.IsImage():
		image, err := describeImage(desc)
		return described{Image: image}, err
	case desc.MediaType.IsSchema1():
		return described{}, errSchema1
	}
	return described{}, errNoImage
}

// describeImage reads the configuration of an image, which contains the platform. It does not read the configuration of other artifacts, which
// has a different format and does not contain a platform.
func describeImage(desc *remote.Descriptor) (Image, error) {
	manifest, err := v1.ParseManifest(bytes.NewReader(desc.Manifest))
	if err != nil {
		return Image{}, errManifest
	}
	created := annotatedTime(manifest.Annotations)
	if !manifest.Config.MediaType.IsConfig() {
		return Image{Created: created, Labels: labels(manifest.Annotations)}, nil
	}
	image, err := desc.Image()
	if err != nil {
		return Image{}, err
	}
	raw, err := image.RawConfigFile()
	if err != nil {
		return Image{}, err
	}
	var config struct {
		v1.Platform
		Created v1.Time `json:"created"`
		Config  struct {
			Labels map[string]string
		} `json:"config"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return Image{}, err
	}
	if created.IsZero() {
		created = buildTime(config.Created.Time)
	}
	read := Image{Created: created, Labels: labels(manifest.Annotations, config.Config.Labels)}
	if p, ok := platformName(&config.Platform); ok {
		read.Platforms = []string{p}
	}
	return read, nil
}

func annotatedTime(annotations map[string]string) time.Time {
	created, _ := time.Parse(time.RFC3339, annotations[createdAnnotation])
	return buildTime(created)
}

// buildTime returns t in UTC, or the zero time if t is before 1981, because reproducible builds write a fixed time such as 1970-01-01 or 1980-01-01.
func buildTime(t time.Time) time.Time {
	if t.Year() < 1981 {
		return time.Time{}
	}
	return t.UTC()
}

// These are the limits of Image.Platforms. Without these limits, the platforms of an index could need as much memory as its manifest.
const (
	maxPlatforms = 128
	maxPlatform  = 128 // length of one platform in bytes
)

// platformImages returns the first maxPlatforms images of an index that have a platform.
func platformImages(index *v1.IndexManifest) []platformImage {
	var found []platformImage
	for _, m := range index.Manifests {
		if p, ok := platformName(m.Platform); ok && len(found) < maxPlatforms {
			found = append(found, platformImage{p, m.Digest.String()})
		}
	}
	return found
}

// unnamed returns the digests of the first maxUnnamed images for which an index does not specify a platform. An index need not specify platforms.
func unnamed(index *v1.IndexManifest) []string {
	var found []string
	for _, m := range index.Manifests {
		if m.Platform == nil && m.MediaType.IsImage() && (m.ArtifactType == "" || types.MediaType(m.ArtifactType).IsConfig()) && len(found) < maxUnnamed {
			found = append(found, m.Digest.String())
		}
	}
	return found
}

func platforms(images []platformImage) []string {
	var found []string
	for _, c := range images {
		found = append(found, c.platform)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// platformName returns os/architecture[/variant]. It returns false for an attestation, whose platform is unknown/unknown, and
// for a platform that is longer than maxPlatform.
func platformName(p *v1.Platform) (string, bool) {
	if p == nil || p.OS == "" || p.Architecture == "" || p.OS == "unknown" || p.Architecture == "unknown" {
		return "", false
	}
	if len(p.OS)+len(p.Architecture)+len(p.Variant)+2 > maxPlatform {
		return "", false
	}
	parts := []string{p.OS, p.Architecture}
	if p.Variant != "" {
		parts = append(parts, p.Variant)
	}
	return strings.Join(parts, "/"), true
}

// supports reports whether platforms contains the wanted platform. As in container runtimes, arm64 is equal to
// arm64/v8, and an image for arm without a variant is equal to one for arm/v7. A wanted platform without a variant
// matches any variant.
func supports(platforms []string, wanted string) bool {
	wantedOS, wantedArch, wantedVariant := splitPlatform(wanted)
	for _, p := range platforms {
		os, arch, variant := splitPlatform(p)
		if arch == "arm" && variant == "" {
			variant = "v7"
		}
		if os == wantedOS && arch == wantedArch && (wantedVariant == "" || variant == wantedVariant) {
			return true
		}
	}
	return false
}

func splitPlatform(p string) (os, arch, variant string) {
	os, arch, _ = strings.Cut(p, "/")
	arch, variant, _ = strings.Cut(arch, "/")
	if arch == "arm64" && variant == "v8" {
		variant = ""
	}
	return os, arch, variant
}

// clip truncates untrusted text for a message.
func clip(s string) string {
	if len(s) > 128 {
		return s[:128]
	}
	return s
}

const opGone = "check the absence of"

func (s *Scanner) gone(ctx context.Context, r Request, tag, digest, witness string) (bool, error) {
	t, err := s.target(opGone, r)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	missing := []string{tag}
	if digest != "" {
		missing = append(missing, digest)
	}
	for _, identifier := range missing {
		if there, err := t.exists(ctx, identifier); err != nil || there {
			return false, err
		}
	}
	there, err := t.exists(ctx, witness)
	if err != nil || !there {
		return false, err
	}
	s.digests.Remove(t.key + " " + tag)
	return true, nil
}

// exists reports whether a tag or a digest exists. Only a 404 proves that it does not exist.
func (t target) exists(ctx context.Context, identifier string) (bool, error) {
	ref, err := t.reference(opGone, identifier)
	if err != nil {
		return false, err
	}
	if _, err = t.head(ctx, ref); err == nil {
		return true, nil
	}
	failed := t.fail(opGone, ref.Name(), err)
	if KindOf(failed) == NotFound {
		return false, nil
	}
	return false, failed
}

// reference returns the reference to a tag or a digest.
func (t target) reference(op, identifier string) (name.Reference, error) {
	if version.IsTag(identifier) {
		return t.repo.Tag(identifier), nil
	}
	if _, err := v1.NewHash(identifier); err != nil {
		return nil, badName(op, t.repo.Name()+":"+clip(identifier), "neither a tag nor a digest", "specify a tag or a digest")
	}
	return t.repo.Digest(identifier), nil
}

func noDigest(op string, r Request, text string) *Error {
	return badName(op, clip(r.Repository)+"@"+clip(text), "not a valid digest", "use sha256: and 64 hexadecimal digits")
}
