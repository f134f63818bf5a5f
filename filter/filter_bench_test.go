package filter

import (
	"strings"
	"testing"
)

func BenchmarkMatch(b *testing.B) {
	props := &rawProperties{[]byte(allocProperties)}
	for _, expression := range allocExpressions {
		b.Run(expression, func(b *testing.B) {
			q, err := Compile(expression)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = q.Match(props)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	run := func(name, expression string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(expression)))
			for b.Loop() {
				_, _ = Compile(expression)
			}
		})
	}
	run("short", allocExpressions[3])
	run("chain", strings.Repeat("a = 5 OR ", MaxExpressionBytes/10)+"a = 5")
	run("minus", strings.Repeat("--", MaxExpressionBytes/2))
	cache := NewCache(CacheOptions{})
	b.Run("cached", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = cache.Compile(allocExpressions[3])
		}
	})
}

func BenchmarkTags(b *testing.B) {
	tags, err := ParseTags("TagA || TagB || TagC")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("match", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tags.MatchCode(int64(TagHash("TagC")))
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = ParseTags("TagA || TagB || TagC")
		}
	})
}

func BenchmarkBloom(b *testing.B) {
	bloom, err := NewBloomFilter(20, 32)
	if err != nil {
		b.Fatal(err)
	}
	data, bits := bloom.Generate("group#topic"), NewBits(bloom.BitCount())
	b.ReportAllocs()
	for b.Loop() {
		_ = bloom.HashTo(data, bits)
		_, _ = bloom.IsHit(data, bits)
	}
}
