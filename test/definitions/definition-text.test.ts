/** Goal: a definition file is read as intended. Any other file is refused with a reason, whatever it holds. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseDefinition, parseSpecialist } from '../../src/definitions/definition-text.ts';

function file(front: string, body = 'Do it well.'): string {
  return `---\n${front}\n---\n${body}\n`;
}

describe('skills and workflows', () => {
  it('have a name, a description, and the text below them', () => {
    expect(parseDefinition(file('name: baking\ndescription: "Bread: how"', '\n# Bread\n\nKnead.\n'))).toEqual({
      name: 'baking',
      description: 'Bread: how',
      content: '# Bread\n\nKnead.',
    });
  });

  it('a byte order mark, Windows line ends, and horizontal rules in the text are accepted', () => {
    const text = '\u{feff}---\r\nname: a\r\ndescription: b\r\n--- \r\none\r\n---\r\ntwo\r\n';
    expect(parseDefinition(text)).toEqual({ name: 'a', description: 'b', content: 'one\n---\ntwo' });
  });

  it.each([
    ['no front matter', 'name: a', 'begin with front matter'],
    ['an end that is missing', '---\nname: a\ndescription: b\n', 'does not end'],
    ['a list', file('- a\n- b'), 'not a mapping'],
    ['a word', file('hello'), 'not a mapping'],
    ['no name', file('description: b'), 'name'],
    ['no description', file('name: a'), 'description'],
    ['a blank description', file('name: a\ndescription: "  "'), 'description'],
    ['a bad name', file('name: Not Good\ndescription: b'), 'name'],
    ['a name that is a number', file('name: 12\ndescription: b'), 'name'],
    ['no text', file('name: a\ndescription: b', ''), 'no text'],
    ['broken YAML', file('name: [a'), ''],
    ['aliases', file('x: &x [1]\ny: *x\nname: a\ndescription: b'), 'alias'],
  ])('%s is refused', (_what, text, reason) => {
    expect(() => parseDefinition(text)).toThrow(new RegExp(reason, 'iu'));
  });

  it('F73: keys of prototypes stay data', () => {
    const parsed = parseDefinition(file('name: a\ndescription: b\n__proto__:\n  polluted: true\nconstructor: x'));
    expect(parsed).toEqual({ name: 'a', description: 'b', content: 'Do it well.' });
    expect(Reflect.get({}, 'polluted')).toBeUndefined();
  });

  it('a YAML tag creates only data', () => {
    const text = file('name: a\ndescription: !!js/function "function () { return 1 }"');
    expect(parseDefinition(text).description).toBe('function () { return 1 }');
  });

  it('any text is a definition or an Error (property)', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        for (const whole of [text, file(text), file('name: a\ndescription: b', text)]) {
          try {
            expect(parseDefinition(whole).name).toMatch(/^[a-z0-9][a-z0-9_-]*$/u);
          } catch (error) {
            expect(error).toBeInstanceOf(Error);
          }
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe('specialists', () => {
  it('the tools are read from a list of either form, in lower case and each once', () => {
    const expected = { name: 'Critic', description: 'reads', tools: ['bash', 'read_file'], prompt: 'Be kind.' };
    const front = 'name: Critic\ndescription: reads\ntools: ';
    expect(parseSpecialist(file(`${front}Bash, read_file, bash`, 'Be kind.'))).toEqual(expected);
    expect(parseSpecialist(file(`${front}[Bash, read_file]`, 'Be kind.'))).toEqual(expected);
  });

  it('a missing list of tools means none; model, color and maxTurns are kept', () => {
    expect(parseSpecialist(file('name: c\ndescription: d\nmodel: m\ncolor: red\nmaxTurns: 3'))).toEqual({
      name: 'c',
      description: 'd',
      tools: [],
      prompt: 'Do it well.',
      model: 'm',
      color: 'red',
      maxTurns: 3,
    });
  });

  it.each(['maxTurns: 0', 'maxTurns: many', 'tools: 3', 'model: [m]'])('%s is refused', (line) => {
    expect(() => parseSpecialist(file(`name: c\ndescription: d\n${line}`))).toThrow(line.split(':')[0]);
  });
});
