use frostline_base::SplitId;
use frostline_split::{DocumentForm, Mapping, SplitWriter, WriterOptions};
use frostline_store::OpenOptions;

use super::*;

/// A split of these documents, made again from their columns, and how many row groups it has.
async fn rendered(repository: &Repository, documents: &[String]) -> (Arc<SplitEntry>, u64) {
    let options = WriterOptions { documents: DocumentForm::Rendered, ..WriterOptions::default() };
    let mut writer = SplitWriter::new(Mapping::dynamic(), options);
    documents.iter().for_each(|document| writer.add(document.as_bytes()).unwrap());
    let (id, mut file) = (SplitId::from_random(9), Vec::new());
    let sealed = writer.seal(id, &mut file).unwrap();
    let footer = &file[sealed.footer.start as usize..sealed.footer.end as usize];
    let split = Split::open(footer).unwrap();
    let groups = split.documents(None).unwrap().ranges().len() as u64;
    repository.put(&id.to_string(), file.into()).await.unwrap();
    let entry = SplitEntry::new(id, id.to_string(), &sealed);
    (Arc::new(entry), groups)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_row_group_is_fetched_once_and_few_of_its_documents_are_held_at_once() {
    let repository = Repository::open("memory:", &OpenOptions::default()).unwrap();
    let text = "an error of the same kind ".repeat(80);
    let document = |n: u64| format!(r#"{{"@timestamp":{},"n":{n},"text":"{text}"}}"#, 1_700_000_000_000 + n);
    let documents: Vec<String> = (0..9_000).map(document).collect();
    let (entry, groups) = rendered(&repository, &documents).await;
    assert_eq!(groups, 3);
    let (before, reads) = (repository.meter().cost(), BlockingReads::new(&repository));
    let read = tokio::task::spawn_blocking(move || {
        let mut source = Documents::open(&reads, &entry).unwrap();
        let (mut most, mut windows, mut end, mut found) = (0, 0, 0, Vec::new());
        while source.head(&reads).unwrap().is_some() {
            if source.next > end {
                (windows, end) = (windows + 1, source.next);
                most = most.max(source.rows.iter().map(|(_, document)| document.len()).sum());
            }
            found.push(String::from_utf8(source.next_document().unwrap().0).unwrap());
        }
        (most, windows, found)
    });
    let (most, windows, found) = read.await.unwrap();
    assert_eq!(found, documents);
    assert!(most < WINDOW_BYTES / 8 * 9, "{most} bytes of documents were held");
    // The hot footer, the times of each window, and each row group once.
    assert_eq!(repository.meter().cost().since(&before).gets, 1 + windows + groups);
}
