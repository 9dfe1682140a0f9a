package version

import "errors"

// Timed is what is known of the time of a tag's image, for SchemePushTime.
type Timed struct {
	// Version that the time gives; "" for none. Numbers of falling weight, such as those
	// of year, month and day, order the tags by time.
	Version string
	// Reason why there is none, as a rejection shows it.
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

// RankTimed is Rank for SchemePushTime, whose versions are those of times, by tag. A tag
// without a time is not a version.
func (s *Selector) RankTimed(tags []string, times map[string]Timed) *Ranking {
	return s.rank(tags, nil, times, nil)
}

// Chooses reports that a tag passes the filters that judge the tag alone: of no other one
// the time is needed.
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
