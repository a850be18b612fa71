/** Goal: R45 to R69 refuse what the API refuses, and nothing else. Method: a request for each case, in a table. */
import { describe, expect, it } from 'vitest';
import { checkRequest, fatalOf } from '../../src/context/legality/legality.ts';
import { LEGAL_ROWS } from '../support/legal-rows.ts';
import { RULE_ROWS } from '../support/rule-rows.ts';

describe('checkRequest, R45 to R69', () => {
  it.each(RULE_ROWS.map((row) => [row.rule, row.what, row] as const))('%s: %s', (rule, _what, row) => {
    const found = checkRequest(row.body, { betas: row.betas ?? [], batch: row.batch === true });
    expect([...new Set(found.map((each) => each.rule))]).toEqual([rule]);
    expect(found[0]?.message).toMatch(row.says);
    expect(found[0]?.code).toBe(row.code);
    expect(found.every(({ fatal }) => fatal === (row.warns !== true))).toBe(true);
  });

  it.each(LEGAL_ROWS.map((row) => [row.what, row] as const))('%s: is legal', (_what, { body, betas }) => {
    expect(checkRequest(body, { betas: betas ?? [] })).toEqual([]);
  });

  it('R44, R49: before version 2026-10-21, sampling is not judged', () => {
    const body = {
      model: 'claude-sonnet-4-5',
      max_tokens: 1,
      temperature: 0.2,
      messages: [{ role: 'user', content: 'a' }],
    };
    expect(fatalOf(checkRequest(body, { version: '2023-06-01' }))).toEqual([]);
    expect(fatalOf(checkRequest(body, { version: '2026-10-21' }))).toMatchObject([{ rule: 'R49' }]);
    expect(fatalOf(checkRequest(body))).toMatchObject([{ rule: 'R49' }]);
  });

  it('R53 to R56, R62, R64: without the header, every beta counts as given', () => {
    const rows = RULE_ROWS.filter(
      ({ says }) => says.test('x: Extra inputs are not permitted') || /Extra inputs/.test(says.source),
    );
    const unknown = rows.filter(({ what }) => /without the beta/.test(what));
    expect(unknown.length).toBeGreaterThan(4);
    for (const { body, what } of unknown) expect(checkRequest(body), what).toEqual([]);
  });

  it('R14, R62: a continued thread may begin with results, or be empty', () => {
    const thread = { type: 'continue', previous_message_id: 'msg_1' };
    const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' };
    for (const messages of [[], [{ role: 'user', content: [result] }]]) {
      expect(checkRequest({ model: 'claude-opus-5-5', max_tokens: 1, thread, messages })).toEqual([]);
    }
  });
});
