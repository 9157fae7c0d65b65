package demo

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// summaryKey is the conversation of the summary; each child's is its shop.
const summaryKey = "summary"

var (
	pageURL   = regexp.MustCompile(`https?://[^\s"<>]+`)
	nightDate = regexp.MustCompile(`night (\d{4}-\d{2}-\d{2})`)
	product   = regexp.MustCompile(`product (\S+)`)
)

// conversationKey names a conversation by what its first message is about.
func conversationKey(r scriptmodel.Request) string {
	if shop := shopIn(r.FirstText()); shop != "" && !isSummary(r) {
		return shop
	}
	return summaryKey
}

func isSummary(r scriptmodel.Request) bool { return len(r.Tools) == 0 }

// nightScript plays both agents of the example.
func nightScript(r scriptmodel.Request) (scriptmodel.Answer, error) {
	a, err := scriptmodel.Answer{}, error(nil)
	if isSummary(r) {
		a, err = summarise(r)
	} else {
		a, err = checkShop(r)
	}
	// Two and a half bytes a token: the prompt is prices, which split badly.
	a.Usage = scriptmodel.Usage{InputTokens: int64(len(r.Raw) * 2 / 5), OutputTokens: 260}
	return a, err
}

func summarise(r scriptmodel.Request) (scriptmodel.Answer, error) {
	if r.Turn() > 0 {
		return scriptmodel.Answer{}, errors.New("the summary is one answer")
	}
	n := len(shopPattern.FindAllString(r.FirstText(), -1))
	return scriptmodel.Answer{Parts: []scriptmodel.Part{
		scriptmodel.Text(fmt.Sprintf("The night's summary: the results name %d shops.", n)),
	}}, nil
}

// checkShop reads the shop's page, proposes a price one dollar above it and
// says so. Shop 23 has a catalogue that is read page by page.
func checkShop(r scriptmodel.Request) (scriptmodel.Answer, error) {
	first := r.FirstText()
	shop, url := shopIn(first), strings.TrimRight(pageURL.FindString(first), ".,")
	night, about := nightDate.FindStringSubmatch(first), product.FindStringSubmatch(first)
	if shop == "" || url == "" || night == nil || about == nil {
		return scriptmodel.Answer{}, fmt.Errorf("the prompt names no shop, product, address or night: %.200s", first)
	}
	if shop == manyPagesShop {
		return readCatalogue(r, url)
	}
	switch results := r.Results(); r.Turn() {
	case 0:
		return scriptmodel.Answer{Parts: []scriptmodel.Part{
			scriptmodel.Thinking("The page of " + shop + " has the price; I need nothing else."),
			scriptmodel.Text("I read the page of " + shop + "."),
			scriptmodel.Call("fetch_page", map[string]string{"url": url}),
		}}, nil
	case 1:
		price := dollars(priceOf(shop))
		if len(results) != 1 || results[0].IsError || !strings.Contains(results[0].Text, price) {
			return done(shop + ": the page could not be read; no change.")
		}
		return scriptmodel.Answer{Parts: []scriptmodel.Part{
			scriptmodel.Text(shop + " asks " + price + "."),
			scriptmodel.Call("propose_price", struct {
				Night   string  `json:"night"`
				Shop    string  `json:"shop"`
				Product string  `json:"product"`
				Price   float64 `json:"price"`
				Reason  string  `json:"reason"`
			}{night[1], shop, about[1], float64(priceOf(shop)+100) / 100, shop + " asks " + price}),
		}}, nil
	case 2:
		last := results[len(results)-1]
		if last.IsError {
			return done(shop + ": proposed a price; " + last.Text)
		}
		return done(shop + ": the price was changed.")
	}
	return scriptmodel.Answer{}, fmt.Errorf("%s: a fourth request after the last word", shop)
}

// readCatalogue asks for fourteen pages: one, then five, then eight at once.
func readCatalogue(r scriptmodel.Request, url string) (scriptmodel.Answer, error) {
	rounds := []int{0, 1, 6, manyPages}
	turn := r.Turn()
	if turn < len(rounds)-1 {
		a := scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text(fmt.Sprintf("I read the catalogue, round %d.", turn+1))}}
		for i := rounds[turn]; i < rounds[turn+1]; i++ {
			page := url
			if i > 0 {
				page = fmt.Sprintf("%s/pages/%d", url, i)
			}
			a.Parts = append(a.Parts, scriptmodel.Call("fetch_page", map[string]string{"url": page}))
		}
		return a, nil
	}
	if turn > len(rounds)-1 {
		return scriptmodel.Answer{}, errors.New(manyPagesShop + ": a request after the last word")
	}
	read, refused := 0, 0
	for _, res := range r.Results() {
		if res.IsError {
			refused++
		} else {
			read++
		}
	}
	return done(fmt.Sprintf("%s: read %d pages, %d were over the budget; no change.", manyPagesShop, read, refused))
}

func done(text string) (scriptmodel.Answer, error) {
	return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text(text)}}, nil
}

// thinkTime is how long the model takes for an answer: the same for the same
// request, between 0.15 and 0.40 s.
func thinkTime(key string, turn int) time.Duration {
	n := shopNumber(key)
	return time.Duration(150+(n*37+turn*83)%250) * time.Millisecond
}
