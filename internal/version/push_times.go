package version

import "errors"

// Timed describes the time of a tag's image, for SchemePushTime.
type Timed struct {
	// Version is the version that stands for the time, or empty if there is no version. Its numbers are in order of
	// decreasing significance, for example year, month and day, so that they order the tags by time.
	Version string
	// Reason is the reason why there is no version. The rejection of the tag contains this reason.
	Reason string
}

var errNoTime = errors.New("not a version: the time of its image is unknown")

func (t Timed) read() (*Version, error) {
	switch {
	case t.Version != "":
		return read(t.Version)
	case t.Reason != "":
		return nil, errors.New(t.Reason)
	}
	return nil, errNoTime
}

// RankTimed is like Rank, but for SchemePushTime. times maps each tag to its version. A tag without a time is not a
// version.
func (s *Selector) RankTimed(tags []string, times map[string]Timed) *Ranking {
	return s.rank(tags, nil, times, nil)
}

// Chooses reports whether a tag passes the filters that apply only to the tag. The times of tags that do not
// pass are not needed.
func (s *Selector) Chooses(tag string) bool {
	verdict, _ := s.run(tagFilters, &candidate{tag: tag})
	return verdict == ""
}

func timeErrors(r Rules) (errs []FieldError) {
	if r.Suffix != "" {
		errs = append(errs, FieldError{"versioning.suffix", "is not used with versioning.scheme PushTime", "select tags with tagFilter.pattern"})
	}
	if r.TagFilter.Extract != "" {
		errs = append(errs, FieldError{"tagFilter.extract", "is not used with versioning.scheme PushTime", "omit it: the version is a time"})
	}
	if r.Level == LevelCandidate {
		errs = append(errs, FieldError{"versioning.level", "is Candidate, but a time is never a pre-release", "write Release"})
	}
	return errs
}
