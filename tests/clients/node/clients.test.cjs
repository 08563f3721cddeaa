// The official clients for Node.js of a running server. CLIENT names the package, and URL the server, which has the indices
// `web` and `app` of tests/clients/server.py. Run by tests/clients/test_node.py with Node's test runner.
'use strict'

const { after, test } = require('node:test')
const assert = require('node:assert/strict')

const { CLIENT, URL, DOCUMENTS, HAS_ASYNC_SEARCH } = process.env
const { Client, errors } = require(CLIENT)
const client = new Client({ node: URL })
const documents = Array.from({ length: Number(DOCUMENTS) }, (_, n) => ({ n, status: [200, 404, 500][n % 3] }))
after(() => client.close())

// Elasticsearch's clients take the members of a body beside the other parameters and answer with a body; OpenSearch's take
// `body` and answer with the status beside it.
const isOpenSearch = CLIENT.includes('opensearch')
const with_ = (parameters, body) => isOpenSearch ? { ...parameters, body } : { ...parameters, ...body }
const bodyOf = async (answer) => isOpenSearch ? (await answer).body : answer
const search = (index, body) => bodyOf(client.search(with_({ index }, body)))
const count = async (index, body) => (await bodyOf(client.count(with_({ index }, body)))).count
const numbers = (found) => found.map((document) => document.n).sort((a, b) => a - b)
const statusOf = (error) => error.meta.statusCode

test('the client accepts the server', async () => {
  assert.equal(isOpenSearch ? (await client.ping()).statusCode === 200 : await client.ping(), true)
  assert.match((await bodyOf(client.info())).version.number, /^8\./)
})

test('a search answers with hits and aggregations', async () => {
  const answer = await search('web', {
    query: { bool: { filter: [{ term: { status: 404 } }, { range: { n: { lt: 100 } } }] } },
    aggs: { hosts: { terms: { field: 'host.name.keyword' } } },
    sort: [{ n: 'desc' }],
    size: 2
  })
  const expected = documents.filter((d) => d.status === 404 && d.n < 100)
  assert.deepEqual(answer.hits.total, { value: expected.length, relation: 'eq' })
  assert.deepEqual(answer.hits.hits.map((hit) => hit._source.n), numbers(expected).slice(-2).reverse())
  const buckets = answer.aggregations.hosts.buckets
  assert.equal(buckets.reduce((sum, bucket) => sum + bucket.doc_count, 0), expected.length)
})

test('helpers.search gives the documents', async () => {
  const found = await client.helpers.search(with_({ index: 'app' }, { query: { range: { n: { lt: 3 } } }, sort: [{ n: 'asc' }] }))
  assert.deepEqual(found.map((document) => document.n), [0, 1, 2])
})

test('helpers.scrollSearch and scrollDocuments read every document once', async () => {
  const query = { query: { term: { status: 500 } }, size: 300 }
  const expected = numbers(documents.filter((d) => d.status === 500))
  const paged = []
  let pages = 0
  for await (const page of client.helpers.scrollSearch(with_({ index: 'web' }, query))) {
    assert.equal(page.body.hits.total.value, expected.length)
    paged.push(...page.documents)
    pages += 1
  }
  assert.deepEqual(numbers(paged), expected)
  assert.ok(pages >= expected.length / 300)
  const one = []
  for await (const document of client.helpers.scrollDocuments(with_({ index: 'web' }, query))) one.push(document)
  assert.deepEqual(numbers(one), expected)
})

test('a scroll that is left early is cleared', async () => {
  let id
  for await (const page of client.helpers.scrollSearch(with_({ index: 'web' }, { size: 10 }))) {
    id = page.body._scroll_id
    await page.clear()
  }
  await assert.rejects(client.scroll(with_({}, { scroll_id: id })), (error) => statusOf(error) === 404)
})

test('helpers.bulk stores every document once, and drops with the reason', async () => {
  const dropped = []
  const stats = await client.helpers.bulk({
    datasource: Array.from({ length: 3000 }, (_, n) => ({ n })),
    onDocument: ({ n }) => ({ create: { _index: 'node-bulk', _id: String(n % 2900) } }),
    onDrop: (document) => dropped.push(document),
    flushBytes: 10_000,
    concurrency: 5,
    refreshOnCompletion: true
  })
  assert.equal(stats.total, 3000)
  assert.equal(stats.successful + stats.failed, 3000)
  assert.equal(dropped.length, 100)
  for (const { status, error } of dropped) {
    assert.equal(status, 409)
    assert.equal(error.type, 'version_conflict_engine_exception')
  }
  assert.equal(await count('node-bulk'), 2900)

  const changed = await client.helpers.bulk({
    datasource: Array.from({ length: 300 }, (_, n) => n),
    onDocument: (n) => [
      { delete: { _index: 'node-bulk', _id: String(n) } },
      [{ update: { _index: 'node-bulk', _id: String(n) } }, { doc: { even: n % 2 === 0 } }],
      [{ index: { _index: 'node-bulk', _id: String(n) } }, { n: -n }]
    ][n % 3],
    onDrop: (document) => assert.fail(JSON.stringify(document))
  })
  assert.equal(changed.successful, 300)
  assert.equal(await count('node-bulk'), 2800)
  assert.equal(await count('node-bulk', { query: { exists: { field: 'even' } } }), 100)
  assert.equal(await count('node-bulk', { query: { range: { n: { lt: 0 } } } }), 100)
  await client.indices.delete({ index: 'node-bulk' })
})

test('helpers.msearch answers each search, and each error to its own', async () => {
  const together = client.helpers.msearch({ operations: 3 })
  const answers = await Promise.allSettled([
    together.search({ index: 'web' }, { query: { term: { status: 200 } }, size: 0 }),
    together.search({ index: 'app' }, { query: { range: { n: { gte: 98 } } } }),
    together.search({ index: 'web' }, { query: { trem: { status: 200 } } })
  ])
  together.stop()
  assert.equal(answers[0].value.body.hits.total.value, documents.filter((d) => d.status === 200).length)
  assert.deepEqual(numbers(answers[1].value.documents), [98, 99])
  assert.equal(answers[2].reason.name, 'ResponseError')
  assert.equal(answers[2].reason.meta.body.status, 400)
})

test('msearch answers in order', async () => {
  const searches = [{ index: 'app' }, { size: 1 }, { index: 'gone' }, {}]
  const { responses } = await bodyOf(client.msearch(isOpenSearch ? { body: searches } : { searches }))
  assert.equal(responses[0].hits.total.value, 100)
  assert.equal(responses[1].error.type, 'index_not_found_exception')
})

test('pages of a point in time follow one another', async () => {
  const pit = isOpenSearch
    ? (await client.createPit({ index: 'web', keep_alive: '1m' })).body.pit_id
    : (await client.openPointInTime({ index: 'web', keep_alive: '1m' })).id
  const seen = []
  let after
  for (;;) {
    const body = { pit: { id: pit, keep_alive: '1m' }, sort: [{ n: 'asc' }], size: 900, ...(after && { search_after: after }) }
    const { hits } = (await bodyOf(client.search(with_({}, body)))).hits
    if (hits.length === 0) break
    seen.push(...hits.map((hit) => hit._source.n))
    after = hits.at(-1).sort
  }
  assert.deepEqual(seen, documents.map((d) => d.n))
  if (isOpenSearch) await client.deletePit({ body: { pit_id: [pit] } })
  else assert.equal((await client.closePointInTime({ id: pit })).succeeded, true)
  const search = client.search(with_({}, { pit: { id: pit } }))
  await assert.rejects(search, (error) => error instanceof errors.ResponseError && statusOf(error) === 404)
})

test('templates make data streams, which roll over', async () => {
  const name = 'node-events'
  const template = { mappings: { properties: { code: { type: 'keyword' } } } }
  await client.cluster.putComponentTemplate(with_({ name }, { template }))
  const made = { index_patterns: [`${name}-*`], composed_of: [name], data_stream: {}, priority: 5 }
  await client.indices.putIndexTemplate(with_({ name }, made))
  const shown = await bodyOf(client.indices.getIndexTemplate({ name }))
  assert.deepEqual(shown.index_templates.map((template) => template.name), [name])
  const stream = `${name}-app`
  const stats = await client.helpers.bulk({
    datasource: Array.from({ length: 50 }, (_, n) => ({ '@timestamp': '2024-05-01T00:00:00Z', code: n })),
    onDocument: () => ({ create: { _index: stream } })
  })
  assert.equal(stats.successful, 50)
  assert.equal((await bodyOf(client.indices.rollover({ alias: stream }))).rolled_over, true)
  await client.index(with_({ index: stream }, isOpenSearch ? { code: 50 } : { document: { code: 50 } }))
  const [shownStream] = (await bodyOf(client.indices.getDataStream({ name: stream }))).data_streams
  assert.equal(shownStream.indices.length, 2)
  const answer = await search(stream, { size: 0, aggs: { codes: { cardinality: { field: 'code' } } } })
  assert.equal(answer.aggregations.codes.value, 51)
  const mapping = await bodyOf(client.indices.getMapping({ index: stream }))
  for (const { index_name: index } of shownStream.indices) assert.equal(mapping[index].mappings.properties.code.type, 'keyword')
  await client.indices.deleteDataStream({ name: stream })
  await client.indices.deleteIndexTemplate({ name })
  await client.cluster.deleteComponentTemplate({ name })
  const exists = await client.indices.existsIndexTemplate({ name })
  assert.equal(isOpenSearch ? exists.body : exists, false)
})

test('a document is written, read, changed and deleted by its id', async () => {
  const of = { index: 'node-ids', id: 'a b/é' }
  const created = await bodyOf(client.index(with_(of, isOpenSearch ? { n: 1 } : { document: { n: 1 } })))
  assert.equal(created.result, 'created')
  const updated = await bodyOf(client.update(with_(of, { doc: { m: 2 } })))
  assert.deepEqual([updated.result, updated._version], ['updated', 2])
  assert.deepEqual((await bodyOf(client.get(of)))._source, { n: 1, m: 2 })
  assert.deepEqual((await bodyOf(client.mget(with_({ index: of.index }, { ids: [of.id, 'none'] })))).docs.map((doc) => doc.found), [true, false])
  const stale = client.index(with_({ ...of, if_seq_no: 0, if_primary_term: 1 }, isOpenSearch ? { n: 3 } : { document: { n: 3 } }))
  await assert.rejects(stale, (error) => statusOf(error) === 409)
  assert.equal((await bodyOf(client.delete(of))).result, 'deleted')
  await client.indices.delete({ index: of.index })
})

test('an error is the client\'s own', async () => {
  for (const [request, status, type] of [
    [() => search('gone', {}), 404, 'index_not_found_exception'],
    [() => search('web', { query: { trem: { n: 1 } } }), 400, 'parsing_exception'],
    [() => client.indices.create({ index: 'web' }), 400, 'resource_already_exists_exception'],
    [() => client.get({ index: 'web', id: 'none' }), 404, undefined]
  ]) {
    await assert.rejects(request, (error) => {
      assert.ok(error instanceof errors.ResponseError)
      assert.deepEqual([statusOf(error), error.meta.body.error?.type], [status, type])
      return true
    })
  }
})

// Elasticsearch's clients have it; OpenSearch's call it by another path.
test('an asynchronous search ends with the answer', { skip: isOpenSearch || !HAS_ASYNC_SEARCH }, async () => {
  let answer = await client.asyncSearch.submit({ index: 'web', size: 0, query: { term: { status: 404 } }, keep_on_completion: true })
  const { id } = answer
  while (answer.is_running) answer = await client.asyncSearch.get({ id, wait_for_completion_timeout: '1s' })
  assert.equal(answer.response.hits.total.value, documents.filter((d) => d.status === 404).length)
  await client.asyncSearch.delete({ id })
  await assert.rejects(client.asyncSearch.get({ id }), (error) => statusOf(error) === 404)
})
